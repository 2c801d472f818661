"""Guards on one store. Each has flights and an inbox of its own, as a process has: two of them are a fleet."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal, Self

import redis.asyncio

from stampede_guard import Policy, StampedeGuard
from stampede_guard.core.scripts import Granted
from stampede_guard.stores.connections.wire import entry_keys
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.settings import DEADLINE
from stampede_guard.values.codec import codec_for
from tests.support.clock import Clock
from tests.support.fields import Fields, fields_of_guard
from tests.support.gate import until

__all__ = ["Guards", "joined", "ours"]


class Guards:
    """`on` is "memory", or a URL. Closes what it made, and then nothing of it may be left.

    On memory, `clock` is moved by hand; on a server, `age` moves the one entry. `deadline` is that of a server's
    answers, in seconds; default: the library's own, which a busy machine may miss.
    """

    def __init__(self, on: Literal["memory"] | str, namespace: str, *, deadline: float = DEADLINE) -> None:
        self.clock = Clock()
        self.namespace = namespace
        self.url = on
        self.deadline = deadline
        self.memory = MemoryStore(clock=self.clock) if on == "memory" else None
        self.made: list[StampedeGuard] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        for guard in self.made:
            await guard.aclose()
        if kind is None:
            assert ours() == set(), "tasks of a closed guard are still running"

    def guard(self, **fields: Any) -> StampedeGuard:
        """One more process of the fleet. `fields` are those of its Policy and its Limits."""
        given = fields_of_guard(**fields)
        if self.memory is not None:
            guard = StampedeGuard(self.memory, namespace=self.namespace, **given)
        else:
            guard = self._on_server(given)
        self.made.append(guard)
        return guard

    def _on_server(self, given: Fields) -> StampedeGuard:
        option = "" if self.deadline == DEADLINE else f"socket_timeout={self.deadline:g}"
        url = f"{self.url}?{option}" if option else self.url
        return StampedeGuard.from_url(url, namespace=self.namespace, **given)

    def name(self, key: str, type: Any = Any) -> str:
        """The entry's name in the store for a key given to `get_or_compute` or `single`."""
        shape = "" if type is Any else f"#{codec_for(type).fingerprint}"
        return f"{self.namespace}:={key}{shape}"

    async def put(self, name: str, body: bytes) -> None:
        """Store these bytes as the value of an entry, as a flight would."""
        session, policy = self.guard().engine.runtime().session, Policy()
        grant = await session.acquire(name, flight="given", policy=policy)
        assert isinstance(grant, Granted)
        assert await session.publish(
            name, flight="given", grant=grant, outcome="value", body=body, policy=policy
        )

    async def age(self, name: str, seconds: float) -> None:
        """Let an entry's value and failure, and what processes know of it, grow older. On memory, leases too."""
        if self.memory is not None:
            self.clock.advance(seconds)
            return
        for guard in self.made:
            pauses = guard.engine.runtime().failing
            for name, (ends, token) in pauses._ends.items():
                pauses._ends[name] = (ends - seconds, token)
        async with redis.asyncio.Redis.from_url(self.url) as client:
            for part in ("v", "e"):
                key = f"{{{name}}}:{part}"
                left = await client.pttl(key)
                if left > 0:
                    await client.pexpire(key, max(0, left - round(seconds * 1000)))

    async def evict_record(self, name: str) -> None:
        """As a full server may."""
        if self.memory is not None:
            self.memory._entries[name] = replace(self.memory.look(name), record=None)
            return
        async with redis.asyncio.Redis.from_url(self.url) as client:
            await client.delete(entry_keys(name)[2])

    async def lease_holder(self, name: str) -> str:
        """The flight that holds the lease, or an empty text."""
        if self.memory is not None:
            lease = self.memory.look(name).lease
            return lease.owner if lease is not None else ""
        async with redis.asyncio.Redis.from_url(self.url) as client:
            return str(await client.hget(f"{{{name}}}:l", "owner") or "")


async def joined(guard: StampedeGuard, name: str, callers: int) -> None:
    """Wait until so many callers have joined the flight of an entry in this guard."""
    flights = guard.engine.runtime().flights
    await until(lambda: name in flights and flights[name].joined >= callers)


def ours() -> set[str]:
    """The names of all running tasks that belong to guards."""
    running = (task for task in asyncio.all_tasks() if not task.done())
    return {task.get_name() for task in running if task.get_name().startswith("stampede_guard")}
