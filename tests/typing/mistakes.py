"""Mistakes that type checkers must report, each on its line. Read by pyright and mypy, never run.

Both also report an "ignore" that nothing needs. So every line with one is reported, and no other line.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, assert_type

import redis.asyncio
from fastapi import FastAPI

from stampede_guard import (
    CacheRoute,
    Limits,
    Policy,
    StampedeGuard,
    StampedeMiddleware,
    cached_many,
    configure,
    locked_cache,
)
from stampede_guard.api.types import CachedFunction
from stampede_guard.leases import Jobs, MemoryLeases, PostgresLeases, RedisLeases


@dataclass(frozen=True)
class Quality:
    project: int


class Session: ...


@asynccontextmanager
async def session() -> AsyncGenerator[Session]:
    yield Session()


async def quality(project: int) -> Quality: ...


async def products(ids: list[int]) -> dict[int, Quality]: ...


guard = StampedeGuard.from_url("memory://")


def names_of_options() -> None:
    locked_cache(tll=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    guard.locked_cache(stale_tl=60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    cached_many(max_id=10)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    guard.cached_many(tag="shop")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locked_cache(ids="projects")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    guard.single("report:7", unkeyed=("db",))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    StampedeGuard.from_url("memory://", namspace="shop")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    StampedeGuard(redis.asyncio.Redis(), ttl=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    guard.within("acme", ttl=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    configure(guard, ttl=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    guard.policy.replace(tll=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def names_of_options_in_a_call() -> None:
    await guard.set("k", 7, tll=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await guard.get("k", ttl=300)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    guard.sync.set("k", 7, tag="shop")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    guard.cached_many(in_thread=False)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locked_cache(in_thread="no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(1 + await guard.get("k", type=int))  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnknownArgumentType]
    await guard.get_or_compute("k", lambda: quality(7), tll=300)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def what_belongs_to_a_function_and_what_to_a_guard() -> None:
    Policy(max_threads=8)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Limits(ttl=300)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    guard.locked_cache(max_flights=8)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    StampedeGuard.from_url("memory://", limits=Policy())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    StampedeGuard.from_url("memory://", policy={"ttl": 300})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def types_of_options() -> None:
    locked_cache(ttl=b"300")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(mode="sometimes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(unkeyed=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(context="tenant")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(should_cache=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(key=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(guard="memory://")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    guard.locked_cache(share="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    guard.cached_many(max_ids="many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    guard.single("report:7", tags=7)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    guard.policy.replace(ttl=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def functions_that_a_decorator_does_not_take() -> None:
    guard.cached_many(ttl=300)(quality)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    locked_cache(quality)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def results() -> None:
    async with guard.single("report:7", type=Quality) as entry:
        if entry.missing:
            await entry.set("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            assert_type(await entry.set(Quality(7)), Quality)
        assert_type(entry.value, Quality)
    async with guard.single("reports", type=list[Quality]) as entries:
        assert_type(entries.value, list[Quality])
    async with guard.single("anything") as anything:
        assert_type(anything.value, Any)
    assert_type(await guard.get_or_compute("k", lambda: quality(7)), Quality)
    assert_type(await guard.get_or_compute("k", connect, type=Quality), Quality)


@locked_cache(ttl=300, resources={"db": session})
async def opened(project: int, db: Session) -> Quality: ...


@guard.locked_cache(ttl=300, resources={"db": Session})
def plain_opened(project: int, db: Session) -> Quality: ...


@guard.cached_many(ttl=300, resources={"db": session})
async def many_opened(ids: list[int], db: Session) -> dict[int, Quality]: ...


async def computed(project: int, db: Session) -> Quality: ...


class Shop:
    @guard.locked_cache(ttl=300, resources={"db": session})
    async def sales(self, day: str, db: Session) -> int: ...


async def callers_do_not_pass_resources() -> None:
    assert_type(await opened(7), Quality)
    assert_type(await opened.refresh(7), Quality)
    assert_type(plain_opened(7), Quality)
    assert_type(await many_opened([7]), dict[int, Quality])
    assert_type(await Shop().sales("mo"), int)
    by_hand: CachedFunction[[int], Quality] = guard.locked_cache(resources={"db": session})(computed)
    assert_type(await by_hand(7), Quality)
    await by_hand("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locked_cache(resources={"db": 7})  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    locked_cache(resources=("db",))  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


@guard.locked_cache(ttl=300)
async def kept_warm(project: int) -> Quality: ...


async def connect() -> object: ...


def options_of_leases(leases: RedisLeases) -> None:
    leases.hold("import", wiat=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    leases.hold("import", grace=b"5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    leases.election("leader", on_electd=print)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    leases.election("leader", lease_ttl=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    leases.run_exclusive("import", overlap="sometimes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    leases.run_exclusive("import", renew_evry=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    leases.warmer(guard).keep(kept_warm, 7)
    leases.warmer(guard).keep(kept_warm, "7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    leases.warmer(guard).keep(quality, 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    leases.warmer("memory://")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    leases.warmer(guard, mots=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    leases.warmer(guard, lease_ttl=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MemoryLeases(naemspace="shop")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    RedisLeases.from_url("redis://localhost:6379/0", eviction="maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    RedisLeases.from_url("redis://localhost:6379/0", schema="shop")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    PostgresLeases.from_url("postgresql://localhost/shop", command_timeout=5, schema="shop")
    PostgresLeases.from_url("postgresql://localhost/shop", comand_timeout=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    PostgresLeases.from_connect(connect, connection=4)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def options_of_jobs(jobs: Jobs) -> None:
    jobs.every(300, time_limt=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    jobs.every(300, overlap="sometimes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    jobs.cron("0 3 * * *", dialect="quartz")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    jobs.cron("0 3 * * *", jitter=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Jobs(MemoryLeases(), drain_timeot=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def options_of_the_http_cache(app: Any) -> None:
    FastAPI().add_middleware(StampedeMiddleware, guard=guard, keep=60, routes=[CacheRoute("/*", ttl=60)])
    FastAPI().add_middleware(StampedeMiddleware, rout=[])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    FastAPI().add_middleware(StampedeMiddleware, keep=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    StampedeMiddleware(app, rout=[])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    StampedeMiddleware(app, set_cookie="maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    StampedeMiddleware(app, routes=["/reports/*"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    CacheRoute("/reports/*", tll=60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    CacheRoute("/reports/*", ttl=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
