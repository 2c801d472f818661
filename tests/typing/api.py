"""What a user's editor says about the public names. Read by pyright and mypy, never run."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, assert_type

import redis.asyncio
from fastapi import FastAPI

from stampede_guard import (
    MISSING,
    UNCHANGED,
    CacheRoute,
    CallInfo,
    Encryption,
    Limits,
    Missing,
    Policy,
    Previous,
    StampedeGuard,
    StampedeMiddleware,
    WaitTimeout,
    cached_many,
    configure,
    locked_cache,
    previous,
)
from stampede_guard.errors import Overloaded, PolicyError, StampedeError
from stampede_guard.leases import Jobs, MemoryLeases
from stampede_guard.testing import FakeClock, FaultyStore, Herd, assert_single_flight, herd, on_store


@dataclass(frozen=True)
class Quality:
    project: int
    good: int


class Session:
    async def count(self) -> int: ...


@asynccontextmanager
async def session() -> AsyncGenerator[Session]:
    yield Session()


guard = StampedeGuard.from_url("redis://localhost:6379/0", namespace="shop", policy=Policy(ttl=300))
assert_type(guard, StampedeGuard)
own_client = StampedeGuard(redis.asyncio.Redis(), namespace="shop")
configure(guard)
configure(None)

tenant: ContextVar[str] = ContextVar("tenant")
app = FastAPI()
guard.install(app)


@app.get("/quality")
@locked_cache(ttl=300)
async def quality(project: int, *, deep: bool = False) -> Quality:
    return Quality(project, int(deep))


@locked_cache(ttl=60, stale_ttl=600, unkeyed=["db"], context=(tenant,), version=2, guard=guard)
async def counted(project: int, db: Session | None = None) -> int | None:
    return await db.count() if db else None


def by_project(project: int) -> tuple[int]:
    return (project,)


@locked_cache(resources={"db": session}, name="opened", key=by_project)
async def opened(project: int, db: Session | None = None) -> list[str]:
    return [str(project), str(db)]


@guard.locked_cache(ttl=300, stale_ttl=3600)
async def through_the_guard(name: str) -> bytes:
    return name.encode()


@locked_cache(ttl=300)
def plain(project: int, *, deep: bool = False) -> Quality:
    return Quality(project, int(deep))


@guard.locked_cache(ttl=300)
def plain_through_the_guard(name: str) -> bytes:
    return name.encode()


class Shop:
    @locked_cache(ttl=300)
    async def sales(self, day: str) -> int: ...

    @locked_cache(ttl=300)
    def plain_sales(self, day: str) -> float: ...

    @staticmethod
    @locked_cache(ttl=300)
    def rate(currency: str) -> float: ...


async def calls_keep_their_types() -> None:
    assert_type(await quality(7, deep=True), Quality)
    assert_type(await counted(7), int | None)
    assert_type(await opened(7), list[str])
    assert_type(await through_the_guard("x"), bytes)

    await quality("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await quality(7, True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await through_the_guard(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def the_other_methods_take_the_arguments_of_the_call() -> None:
    assert_type(await quality.invalidate(7), Literal["done", "pending"])
    assert_type(await quality.refresh(7, deep=True), Quality)
    assert_type(quality.key(7), str)
    quality.set_mode("bypass")

    await quality.invalidate("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    quality.key()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    quality.set_mode("sometimes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def plain_functions_stay_plain() -> None:
    assert_type(plain(7, deep=True), Quality)
    assert_type(plain.refresh(7), Quality)
    assert_type(plain.invalidate(7), Literal["done", "pending"])
    assert_type(plain_through_the_guard("x"), bytes)

    plain("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    plain.invalidate()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def methods_are_bound() -> None:
    shop = Shop()
    assert_type(await shop.sales("mo"), int)
    assert_type(await shop.sales.refresh("mo"), int)
    assert_type(await shop.sales.invalidate("mo"), Literal["done", "pending"])
    assert_type(await Shop.sales.invalidate(shop, "mo"), Literal["done", "pending"])
    assert_type(shop.plain_sales("mo"), float)
    assert_type(shop.plain_sales.invalidate("mo"), Literal["done", "pending"])
    assert_type(Shop.rate("eur"), float)

    await shop.sales(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    shop.plain_sales.invalidate()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@cached_many(ttl=300)
async def products(ids: list[int], *, currency: str = "eur") -> dict[int, Quality]: ...


@guard.cached_many(ttl=300, ids="names")
async def by_name(shop: int, names: list[str]) -> dict[str, bytes]: ...


class Catalogue:
    @cached_many(ttl=300, absent_ttl=5, max_ids=100)
    async def products(self, ids: list[int]) -> dict[int, str]: ...


async def functions_of_many_ids() -> None:
    assert_type(await products([1, 2], currency="usd"), dict[int, Quality])
    assert_type(await products.refresh([1]), dict[int, Quality])
    assert_type(await products.invalidate([1]), Literal["done", "pending"])
    assert_type(products.keys([1]), dict[int, str])
    assert_type(await by_name(7, ["a"]), dict[str, bytes])
    assert_type(await Catalogue().products([1]), dict[int, str])
    assert_type(await Catalogue().products.invalidate([1]), Literal["done", "pending"])

    await products(["1"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    await products.invalidate()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def lifetime(quality: Quality) -> float | None:
    return 300.0 if quality.good else None


@locked_cache(ttl=lifetime, stale_ttl=3600, should_cache=lambda value: value.good > 0)
async def conditional(project: int) -> Quality:
    old = previous()
    assert_type(old, Previous | None)
    if old is not None and old.age < 10:
        return UNCHANGED
    return Quality(project, 1)


@locked_cache(ttl=lifetime)
def plain_conditional(project: int) -> Quality:
    return UNCHANGED if previous() else Quality(project, 1)


async def functions_of_the_value_leave_the_types_alone() -> None:
    assert_type(await conditional(7), Quality)
    assert_type(plain_conditional(7), Quality)
    async with guard.single("report:8", ttl=lambda value: 60.0) as entry:
        if entry.missing:
            await entry.set(UNCHANGED if entry.previous else {"rows": 3})


async def durations_and_keys_are_written_as_texts(leases: MemoryLeases, jobs: Jobs) -> None:
    async def compute() -> float:
        return 1.5

    assert_type(Policy(ttl="10m", stale_ttl=timedelta(hours=1), wait_timeout=5).ttl, float)
    assert_type(Policy().replace(ttl="10m", l1_ttl=timedelta(seconds=5)), Policy)
    assert_type(Limits(drain_timeout="30s").drain_timeout, float)
    guard.locked_cache(ttl="10m", stale_ttl=timedelta(hours=1))
    guard.locked_cache(ttl=lambda value: "10m" if value else None)
    guard.cached_many(ttl=timedelta(minutes=10), absent_ttl="5s")
    locked_cache(ttl="10m", key="user:{user_id}")
    guard.cached_many(key="product:{ids}")
    assert_type(await guard.get_or_compute("report:7", compute, ttl="10m"), float)
    guard.single("report:7", ttl=timedelta(minutes=10))
    assert_type(CacheRoute("/reports/*", ttl="10m", stale_ttl=timedelta(hours=1)).ttl, float)
    FastAPI().add_middleware(StampedeMiddleware, guard=guard, keep="1d", stream_timeout=timedelta(seconds=2))
    leases.hold("import", "1m", wait=timedelta(seconds=5), grace="5s")
    leases.election("leader", lease_ttl="15s")
    leases.run_exclusive("import", at_least_for="1h")
    leases.warmer(guard, every="1s", ahead=timedelta(seconds=30), lease_ttl="15s")
    jobs.every("5m", time_limit="1h", jitter=timedelta(seconds=5))
    jobs.cron("0 3 * * *", misfire_grace="10m")


async def the_guard_itself() -> None:
    async def compute() -> float:
        return 1.5

    assert_type(await guard.get_or_compute("report:7", compute, ttl=300), float)
    assert_type(await guard.invalidate("report:7"), Literal["done", "pending"])
    assert_type(guard.sync.invalidate("report:7"), Literal["done", "pending"])
    assert_type(guard.sync.invalidate_tag("project:7"), Literal["done", "pending"])
    async with guard.single("report:7", ttl=300) as entry:
        if entry.missing:
            await entry.set({"rows": 3})
        print(entry.value)
    with guard.bypassed():
        await quality(7)
    async with own_client as same:
        assert_type(same, StampedeGuard)
    await guard.aclose()
    guard.close()


@locked_cache(ttl=60, in_thread=False)
def in_its_callers_thread(project: int) -> Quality: ...


async def values_without_a_call(shop: Shop) -> None:
    assert_type(await quality.with_info(7), CallInfo[Quality])
    assert_type((await quality.with_info(7)).value, Quality)
    assert_type((await shop.sales.with_info("mo")).age, float)
    assert_type(in_its_callers_thread.with_info(7), CallInfo[Quality])
    assert_type(in_its_callers_thread(7), Quality)
    seen = await quality.peek(7)
    assert_type(seen, Quality | Missing)
    if seen is not MISSING:
        assert_type(seen, Quality)
    assert_type(in_its_callers_thread.peek(7), Quality | Missing)
    stored = await quality.set(Quality(7, 1), 7)
    assert_type(stored, Literal["stored", "superseded", "dropped", "pending"])
    assert_type(await guard.get("n", type=int), int | Missing)
    assert_type(await guard.get("n", type=int, default=None), int | None)
    stored = await guard.set("n", 7, type=int, ttl="10m", tags=("shop",))


def values_without_an_event_loop() -> None:
    def compute() -> float:
        return 1.5

    assert_type(guard.sync.get_or_compute("r", compute, ttl="10m"), float)
    assert_type(guard.sync.get("n", type=int), int | Missing)
    with guard.sync.single("n", type=int, ttl=300) as entry:
        assert_type(entry.set(3), int)
        assert_type(entry.info, CallInfo[int])


class Sealing:
    def encrypt(self, body: bytes, key: str) -> bytes: ...

    def decrypt(self, body: bytes, key: str) -> bytes: ...


sealing: Encryption = Sealing()
sealed = StampedeGuard.from_url("memory://", encryption=Sealing())
StampedeGuard.from_url("memory://", encryption="secret")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def tested() -> None:
    result = await herd(quality, args=(7,), callers=50, workers=8)
    assert_type(result, Herd)
    assert_type(result.computations, int)
    assert_type(await assert_single_flight(app, "/quality?project=7", computes=quality), Herd)
    clock = FakeClock()
    store = FaultyStore(clock=clock, wait=clock.sleep)
    with on_store(guard, store):
        store.fail()
        clock.advance(1.5)


def errors() -> None:
    try:
        Policy(ttl=0)
    except PolicyError as error:
        assert_type(error.field, str)
    except Overloaded as error:
        assert_type(error.retry_after, float)
    except WaitTimeout as error:
        root: StampedeError = error
        print(root, error.retry_after)


def positional_fields_are_refused() -> None:
    Policy(object())  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
    locked_cache(300)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
