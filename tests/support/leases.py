"""One face for every back end of leases under test: open it as another process would, and let time pass."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict, replace
from typing import Any, Protocol

import asyncpg  # type: ignore[import-untyped]

from stampede_guard.leases.core.queue import Place
from stampede_guard.leases.memory import LeaseRows, MemoryBackend
from stampede_guard.leases.messages import LeaseGranted, LeaseRequest, Owner
from stampede_guard.leases.postgres.backend import PostgresBackend
from stampede_guard.leases.protocol import Backend
from stampede_guard.leases.redis.backend import RedisBackend
from stampede_guard.stores.protocol import Store

__all__ = ["LONG", "MemoryWorld", "PostgresWorld", "RedisWorld", "World", "ask", "granted", "owner"]

LONG = 15.0
"""A time-out in seconds that no busy machine reaches."""
WAITING = 600.0


def owner(holder: str) -> Owner:
    return Owner(process=f"process-{holder}", pod=f"pod-{holder}", host="host", pid=7, label=holder)


def ask(name: str, holder: str, *, lease_ttl: float = 60.0, place: float = 0.0) -> LeaseRequest:
    return LeaseRequest(name=name, holder=holder, owner=owner(holder), lease_ttl=lease_ttl, place=place)


async def granted(backend: Backend, name: str, holder: str, *, lease_ttl: float = 60.0) -> int:
    answer = await backend.acquire(ask(name, holder, lease_ttl=lease_ttl), timeout=LONG)
    assert isinstance(answer, LeaseGranted), answer
    return answer.token


class World(Protocol):
    def open(self) -> Backend:
        """A back end as another process would have it."""

    async def age(self, name: str, seconds: float) -> None:
        """Everything about this name becomes so much older; negative: the server's clock was set back."""

    async def crowd(self, name: str, count: int) -> None:
        """So many wait for it: `w0`, `w1` and so on. Somebody has had it before."""

    async def last_is(self, name: str, token: int) -> None:
        """As if this token had been granted, by a clock that was ahead. Somebody has had it before."""

    async def aclose(self) -> None: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.rows = LeaseRows(lambda: self.now)
        self._opened: list[Backend] = []

    def open(self) -> Backend:
        self._opened.append(MemoryBackend(self.rows))
        return self._opened[-1]

    async def age(self, name: str, seconds: float) -> None:
        self.now += seconds

    async def crowd(self, name: str, count: int) -> None:
        until = self.now + WAITING
        places = tuple(Place(f"w{number}", owner("w"), until, WAITING) for number in range(count))
        self.rows.put(name, replace(self.rows.row(name), queue=places))

    async def last_is(self, name: str, token: int) -> None:
        self.rows.put(name, replace(self.rows.row(name), last=token))

    async def aclose(self) -> None:
        for backend in self._opened:
            await backend.aclose()


class PostgresWorld:
    def __init__(self, url: str, **settings: Any) -> None:
        self.url = url
        self._settings = settings
        self._opened: list[PostgresBackend] = []

    async def prepare(self) -> None:
        await self.open().create_schema()

    def open(self) -> PostgresBackend:
        self._opened.append(PostgresBackend.from_url(self.url, **self._settings))
        return self._opened[-1]

    async def age(self, name: str, seconds: float) -> None:
        connection = await asyncpg.connect(self.url, statement_cache_size=0)
        try:
            await connection.execute(
                """UPDATE stampede_guard.leases SET
                    granted_at = granted_at - $2::float8 * interval '1 second',
                    renewed_at = renewed_at - $2 * interval '1 second',
                    deadline = deadline - $2 * interval '1 second',
                    rests_until = rests_until - $2 * interval '1 second'
                WHERE name = $1""",
                name,
                seconds,
            )
            await connection.execute(
                """UPDATE stampede_guard.lease_places SET until = until - $2::float8 * interval '1 second'
                WHERE name = $1""",
                name,
                seconds,
            )
        finally:
            await connection.close()

    async def crowd(self, name: str, count: int) -> None:
        connection = await asyncpg.connect(self.url, statement_cache_size=0)
        try:
            await connection.execute(
                """INSERT INTO stampede_guard.lease_places (name, holder, position, owner, until, seconds)
                SELECT $1, 'w' || number, number, $3::jsonb, clock_timestamp() + $4::float8 * interval '1 second', $4
                FROM generate_series(0, $2::int - 1) AS numbers (number)""",
                name,
                count,
                json.dumps(asdict(owner("w"))),
                WAITING,
            )
        finally:
            await connection.close()

    async def last_is(self, name: str, token: int) -> None:
        connection = await asyncpg.connect(self.url, statement_cache_size=0)
        try:
            await connection.execute(
                "UPDATE stampede_guard.leases SET last = $2 WHERE name = $1", name, token
            )
        finally:
            await connection.close()

    async def aclose(self) -> None:
        await asyncio.gather(*[backend.aclose() for backend in self._opened])


class RedisWorld:
    """`outside` is a plain client of the same server or cluster."""

    def __init__(self, store: Store, outside: Any, namespace: str, **settings: Any) -> None:
        self.store = store
        self.outside: Any = outside
        self.namespace = namespace
        # The server of the tests was started a moment ago.
        self._settings = {"restart": "trust"} | settings
        self._opened: list[RedisBackend] = []

    def open(self) -> RedisBackend:
        self._opened.append(RedisBackend(self.store, namespace=self.namespace, **self._settings))
        return self._opened[-1]

    async def age(self, name: str, seconds: float) -> None:
        key = f"{{{self.namespace}.leases}}:rows"
        text = await self.outside.hget(key, name)
        if text is None:
            return
        row = json.loads(text)
        for field in ("granted_at", "renewed_at", "deadline", "rests_until"):
            if int(row[field]):
                row[field] = str(int(row[field]) - round(seconds * 1_000_000))
        await self.outside.hset(key, name, json.dumps(row))
        tag, shift = f"{{{self.namespace}.leases}}", round(seconds * 1_000_000)
        for place_id, place in (await self.outside.hgetall(f"{tag}:places")).items():
            if place_id.startswith(name.encode() + b"\0"):
                position, till, rest = place.split(b" ", 2)
                await self.outside.hset(
                    f"{tag}:places", place_id, b"%b %d %b" % (position, int(till) - shift, rest)
                )
                for key in (f"{tag}:until", f"{tag}:since"):
                    await self.outside.zincrby(key, -shift, place_id)

    async def crowd(self, name: str, count: int) -> None:
        tag, now = f"{{{self.namespace}.leases}}", round(time.time() * 1_000_000)
        length = round(WAITING * 1_000_000)
        text = json.dumps(asdict(owner("w")))
        ids = [f"{name}\0w{number}" for number in range(count)]
        places = {
            ids[number]: f"{now + number - count:016d} {now + length} {length} 0 0 {text}"
            for number in range(count)
        }
        await self.outside.hset(f"{tag}:places", mapping=places)
        order = {f"{name}\0{places[ids[number]][:16]}w{number}": 0 for number in range(count)}
        await self.outside.zadd(f"{tag}:queue", order)
        await self.outside.zadd(f"{tag}:until", dict.fromkeys(ids, now + length))
        await self.outside.zadd(f"{tag}:since", dict.fromkeys(ids, now))

    async def last_is(self, name: str, token: int) -> None:
        key = f"{{{self.namespace}.leases}}:rows"
        row = json.loads(await self.outside.hget(key, name))
        await self.outside.hset(key, name, json.dumps(row | {"last": str(token)}))

    async def aclose(self) -> None:
        await asyncio.gather(*[backend.aclose() for backend in self._opened])
        await self.outside.aclose()
