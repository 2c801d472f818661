"""Tasks of the guard that outlive the request which began them know nothing of that request."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection

from stampede_guard import StampedeGuard
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.redis import RedisStore
from tests.support.gate import Gate, soon, until

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


class Watched(RedisStore):
    """Notes for whom connections are made, as a credential provider would see it."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        self.seen: list[str] = []

    def connect(self) -> AbstractConnection:
        self.seen.append(TENANT.get())
        return super().connect()


async def test_connections_are_made_for_nobody(valkey: Redis, namespace: str) -> None:
    TENANT.set("the first request's")
    gate, store = Gate(), Watched(valkey)
    async with StampedeGuard(store, namespace=namespace) as guard:
        await guard.engine.runtime().session.acquire(f"{namespace}:other", flight="ours", policy=Policy())
        caller = asyncio.create_task(guard.get_or_compute("k", gate.hold))
        await gate.arrival()
        (flight,) = guard.engine.runtime().flights.values()
        flight.computation.renew_now()
        await until(lambda: len(store.seen) == 3)  # commands, renewals, the inbox
        gate.open()
        await soon(caller)
        assert store.seen == ["nobody"] * 3


async def test_flights_renewals_and_fallbacks_ask_for_nobody() -> None:
    TENANT.set("the first request's")
    slow, quick, memory = Gate(), Gate(), MemoryStore()
    quick.open()
    waits = Policy(wait_timeout=0.05)
    async with StampedeGuard(memory) as there, StampedeGuard(memory, policy=waits) as here:
        holding = asyncio.create_task(there.get_or_compute("k", slow.hold))
        await slow.arrival()
        seen = watch(there.engine.runtime().session, "renew") | watch(
            here.engine.runtime().session, "acquire", "fallback"
        )
        (flight,) = there.engine.runtime().flights.values()
        flight.computation.renew_now()
        await soon(here.get_or_compute("k", quick.hold))
        await until(lambda: all(seen.values()))
        slow.open()
        await soon(holding)
    assert {who for asked in seen.values() for who in asked} == {"nobody"}


def watch(session: Any, *methods: str) -> dict[str, list[str]]:
    """Per method, for whom it was called."""
    seen: dict[str, list[str]] = {method: [] for method in methods}

    def watched(method: str) -> Any:
        original = getattr(session, method)

        async def call(*args: Any, **named: Any) -> Any:
            seen[method].append(TENANT.get())
            return await original(*args, **named)

        return call

    for method in methods:
        setattr(session, method, watched(method))
    return seen
