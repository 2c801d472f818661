"""While the store is away a call costs no more than a call on memory: nothing is sent, nothing is waited for.

The times are measured in bench/micro (`away`); here, what time is made of is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.api.types import CachedFunction
from stampede_guard.stores.connections.calls import CommandCall
from stampede_guard.stores.redis import RedisSession


@dataclass
class Cost:
    """How often the caller was suspended, and how many callbacks went through the event loop meanwhile."""

    suspensions: int = 0
    callbacks: int = 0


class Counted:
    def __init__(self, awaited: Awaitable[Any], cost: Cost) -> None:
        self._awaited = awaited
        self._cost = cost

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaited.__await__()
        try:
            waiting_for = next(steps)
            while True:
                self._cost.suspensions += 1
                waiting_for = steps.send((yield waiting_for))
        except StopIteration as end:
            return end.value


async def cost_of(awaited: Awaitable[Any], monkeypatch: pytest.MonkeyPatch) -> Cost:
    loop, cost = asyncio.get_running_loop(), Cost()
    call_soon = loop.call_soon

    def counted(*args: Any, **options: Any) -> asyncio.Handle:
        cost.callbacks += 1
        return call_soon(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_soon", counted)
        await Counted(awaited, cost)
    return cost


async def without_store(port: int) -> StampedeGuard:
    guard = StampedeGuard.from_url(f"redis://127.0.0.1:{port}")
    await cached(guard)(0)
    assert guard.engine.runtime().session.away
    return guard


def cached(guard: StampedeGuard) -> CachedFunction[[int], int]:
    @guard.locked_cache(name="number", ttl=3600)
    async def number(of: int) -> int:
        return of

    return number


async def test_a_value_seen_before_costs_no_turn_of_the_event_loop(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await without_store(unused_tcp_port) as away, StampedeGuard.from_url("memory://") as memory:
        await cached(memory)(0)
        on_memory = await cost_of(cached(memory)(0), monkeypatch)
        assert await cost_of(cached(away)(0), monkeypatch) == Cost(0, 0) == on_memory


async def test_a_value_computed_anew_costs_no_more_turns_than_on_memory(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await without_store(unused_tcp_port) as away, StampedeGuard.from_url("memory://") as memory:
        on_memory = [await cost_of(cached(memory)(number), monkeypatch) for number in range(1, 6)]
        without = [await cost_of(cached(away)(number), monkeypatch) for number in range(1, 6)]
        # The least of several: what the guard does beside calls (the probe, say) may fall into one of them.
        suspensions = min(cost.suspensions for cost in without)
        assert 0 < suspensions <= min(cost.suspensions for cost in on_memory)
        assert min(cost.callbacks for cost in without) <= min(cost.callbacks for cost in on_memory)


async def test_no_call_sends_anything(unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # A guard asks for the fleet's switches now and then. That is no call's, and a busy machine takes that long.
    monkeypatch.setattr("stampede_guard.engine.modes.switches.SWITCH_SECONDS", 3600.0)
    async with await without_store(unused_tcp_port) as away:
        session: Any = away.engine.runtime().session
        assert isinstance(session, RedisSession)
        sent: list[Any] = []
        for lane in (session._lane, session._renewals):
            monkeypatch.setattr(lane, "send", sent.append)
        for number in range(200):
            assert await cached(away)(number % 50) == number % 50
        assert await cached(away).invalidate(3) == "pending"
        assert await cached(away).refresh(4) == 4
        # The probe; and before the breaker opened, one flight asked for a lease that it may have got, and gives back.
        assert {what(call) for call in sent} <= {"probe", "release"} and len(sent) < 20
        for call in sent:
            call.future.cancel()


def what(call: Any) -> str:
    return "probe" if isinstance(call, CommandCall) else str(call._script.name)
