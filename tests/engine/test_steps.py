"""What flights tell those who watch: the steps of two guards on one store, and of a holder that disappears."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FakeClock
from tests.support.gate import Gate, soon, until
from tests.support.sessions import patient

KEY = "quality"


class Steps:
    """Of one guard."""

    def __init__(self, guard: StampedeGuard) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        guard.engine.hooks.steps = self._step

    def _step(self, kind: str, function: str, entry: str, details: Any) -> None:
        self.told.append((kind, dict(details)))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]

    def of(self, kind: str) -> dict[str, Any]:
        (found,) = [details for one, details in self.told if one == kind]
        return found


async def value() -> str:
    return "value"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def two(clock: FakeClock, **policy: Any) -> tuple[MemoryStore, list[StampedeGuard]]:
    store = MemoryStore(clock=clock)
    return store, [StampedeGuard(store, policy=Policy(ttl=60, **policy)) for _ in range(2)]


async def test_the_holder_and_the_waiter_tell_their_sides(clock: FakeClock) -> None:
    _, (one, other) = two(clock, poll_interval=60, lease_ttl=60)
    holder, waiter, gate = Steps(one), Steps(other), Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    calls = [asyncio.create_task(one.get_or_compute(KEY, compute)) for _ in range(3)]
    await gate.arrival()
    calls += [asyncio.create_task(other.get_or_compute(KEY, value)) for _ in range(2)]
    await until(lambda: "waits" in waiter.kinds)
    gate.open()
    assert await soon(asyncio.gather(*calls)) == ["value"] * 5
    await asyncio.gather(one.aclose(), other.aclose())

    assert holder.kinds == ["asked", "granted", "published", "landed"]
    assert waiter.kinds == ["asked", "waits", "woken", "landed"]
    assert holder.of("published")["stored"] is True
    assert holder.of("published")["token"] == holder.of("granted")["token"] > 0
    assert waiter.of("woken")["how"] == "value"
    assert (holder.of("landed")["callers"], holder.of("landed")["collapsed"]) == (3, 2)
    assert (waiter.of("landed")["callers"], waiter.of("landed")["collapsed"]) == (2, 2)
    assert len({details["flight"] for _, details in holder.told}) == 1


async def test_a_value_too_large_for_the_message_is_found_after_it(valkey_url: str, namespace: str) -> None:
    policy = Policy(ttl=60, inline_bytes=0, poll_interval=60, lease_ttl=60)
    one, other = (
        StampedeGuard.from_url(patient(valkey_url), namespace=namespace, policy=policy) for _ in range(2)
    )
    waiter, gate = Steps(other), Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    calls = [asyncio.create_task(one.get_or_compute(KEY, compute))]
    await gate.arrival()
    calls += [asyncio.create_task(other.get_or_compute(KEY, value))]
    await until(lambda: "waits" in waiter.kinds)
    gate.open()
    await soon(asyncio.gather(*calls))
    await asyncio.gather(one.aclose(), other.aclose())
    assert waiter.kinds == ["asked", "waits", "woken", "found", "landed"]
    assert waiter.of("woken")["how"] == "message"


async def test_a_waiter_suspects_a_holder_that_has_disappeared_and_gets_its_lease(clock: FakeClock) -> None:
    store, (one, other) = two(clock, takeover_gap=0.1, poll_interval=0.1, lease_ttl=30)
    waiter, gate = Steps(other), Gate()

    async def compute() -> str:
        await gate.hold()
        return "late"

    late = asyncio.create_task(one.get_or_compute(KEY, compute))
    await gate.arrival()
    taking = asyncio.create_task(other.get_or_compute(KEY, value))
    await until(lambda: "waits" in waiter.kinds)
    session: Any = one.engine.runtime().session
    store.unsubscribe(session._inbox)  # as a process that dies does
    await until(lambda: clock.advance(0.1) or taking.done())
    assert await taking == "value"
    assert waiter.kinds == ["asked", "waits", "suspects", "granted", "published", "landed"]
    gate.open()
    await soon(late)
    await asyncio.gather(one.aclose(), other.aclose())


async def test_a_computation_that_lasts_tells_each_renewal(clock: FakeClock) -> None:
    store = MemoryStore()
    guard, gate = (
        StampedeGuard(store, policy=Policy(ttl=60, lease_ttl=0.3, takeover_gap=0.1, poll_interval=0.1)),
        Gate(),
    )
    steps = Steps(guard)

    async def compute() -> str:
        await gate.hold()
        return "value"

    call = asyncio.create_task(guard.get_or_compute(KEY, compute))
    await until(lambda: steps.kinds.count("renewed") >= 2)
    gate.open()
    await soon(call)
    await guard.aclose()
    assert steps.kinds[-2:] == ["published", "landed"]
