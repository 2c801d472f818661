"""What must not grow, not take longer than in proportion, and not last longer than it was given."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard import Policy, StampedeGuard
from stampede_guard.core.scripts import FailedRecently, Granted, Held, Uncacheable
from stampede_guard.engine.flights.backoff import MOST, Backoff
from stampede_guard.engine.flights.once import Once
from stampede_guard.engine.flights.passenger import Passenger
from stampede_guard.policy import Limits
from stampede_guard.stores.connections.wire import entry_keys, parse_value, value_bytes
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Session
from stampede_guard.stores.redis import RedisStore
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.clock import Clock
from tests.support.gate import Gate, soon, until
from tests.support.inside import apart_of, closing_of, runtimes_of
from tests.support.listener import RecordingListener

HOUR_MS = 3_600_000
POLICY = Policy(lease_ttl=3.0, error_ttl=1.0)


# --- a clock that steps back --------------------------------------------------------------------------------


async def stepped(url: str, name: str, part: int) -> None:
    """The server's clock has gone back by an hour: the key has so much more time left."""
    async with redis.asyncio.Redis.from_url(url) as client:
        key = entry_keys(name)[part]
        if await client.type(key) == b"zset":
            for member, score in await client.zrange(key, 0, -1, withscores=True):
                await client.zadd(key, {member: score + HOUR_MS * 1000})
        assert await client.pexpire(key, HOUR_MS)


async def ask(session: Session, name: str, flight: str, policy: Policy = POLICY) -> Any:
    return await session.acquire(name, flight=flight, policy=policy)


async def failed(session: Session, name: str, outcome: Any, policy: Policy = POLICY) -> None:
    grant = await ask(session, name, "first")
    assert isinstance(grant, Granted)
    assert await session.publish(
        name, flight="first", grant=grant, outcome=outcome, body=b'{"type":"E"}', policy=policy
    )


FAILURE, LEASE, SLOTS = 1, 3, 5


@pytest.mark.parametrize("lifetime", [HOUR_MS, None], ids=["an hour more", "for ever"])
@pytest.mark.parametrize("what", ["lease", "failure", "mark", "slot", "fallback"])
async def test_what_has_more_time_left_than_it_was_given_ends_at_once(
    own_valkey: ValkeyServer, namespace: str, what: str, lifetime: int | None
) -> None:
    name, one_at_a_time = f"{namespace}:k", Policy(uncacheable_limit=1, uncacheable_ttl=600.0)
    session = RedisStore.from_url(own_valkey.url).open_session(RecordingListener())
    part = {"lease": LEASE, "failure": FAILURE, "mark": FAILURE, "slot": SLOTS, "fallback": SLOTS}[what]
    try:
        if what == "lease":
            assert isinstance(await ask(session, name, "dead"), Granted)
            assert isinstance(await ask(session, name, "other"), Held)
        elif what == "failure":
            await failed(session, name, "failure")
            assert isinstance(await ask(session, name, "other"), FailedRecently)
        elif what in ("mark", "slot"):
            await failed(session, name, "pass", one_at_a_time)
            assert isinstance(await ask(session, name, "dead", one_at_a_time), Uncacheable)
            assert isinstance(await ask(session, name, "other", one_at_a_time), Held)
        else:
            granted = await session.fallback(name, flight="dead", policy=POLICY)
            assert isinstance(granted, Granted)
        if lifetime is not None or part == SLOTS:
            await stepped(own_valkey.url, name, part)
        else:
            async with redis.asyncio.Redis.from_url(own_valkey.url) as client:
                assert await client.persist(entry_keys(name)[part])
        if what == "fallback":
            assert isinstance(await session.fallback(name, flight="other", policy=POLICY), Granted)
        elif what == "slot":
            assert isinstance(await ask(session, name, "other", one_at_a_time), Uncacheable)
        else:
            assert isinstance(await ask(session, name, "other", one_at_a_time), Granted)
    finally:
        await session.aclose()


async def test_a_holder_whose_deadline_was_stretched_goes_on_after_its_next_renewal(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    name = f"{namespace}:k"
    session = RedisStore.from_url(own_valkey.url).open_session(RecordingListener())
    try:
        grant = await ask(session, name, "holder")
        await stepped(own_valkey.url, name, LEASE)
        assert await session.renew(name, flight="holder", token=grant.token, policy=POLICY)
        assert isinstance(await ask(session, name, "other"), Held)
    finally:
        await session.aclose()


# --- headers ------------------------------------------------------------------------------------------------

TEN_YEARS = 10 * 366 * 86_400.0
LONG = Policy(
    ttl=TEN_YEARS,
    stale_ttl=TEN_YEARS,
    compute_timeout=TEN_YEARS,
    wait_timeout=TEN_YEARS,
    fallback_timeout=TEN_YEARS,
)


@pytest.mark.parametrize("milliseconds", [LONG.tag_ms, LONG.total_ms, LONG.record_ms, 10**12, 10**15])
def test_no_lifetime_overflows_the_header(milliseconds: int) -> None:
    stored = value_bytes(
        b"body", token=2**53 - 1, total_ms=milliseconds, stale_ms=milliseconds, took_ms=10**12
    )
    reading = parse_value(stored, 5)
    assert reading is not None and reading.body == b"body" and reading.token == 2**53 - 1
    assert reading.total_ms == min(milliseconds, 10**12 - 1)


def test_a_tags_version_outlives_every_value_that_may_carry_it() -> None:
    assert LONG.total_ms < LONG.tag_ms < 10**12


async def test_the_longest_lifetimes_are_stored_and_tagged(own_valkey: ValkeyServer, namespace: str) -> None:
    computed = 0

    async def compute() -> int:
        nonlocal computed
        computed += 1
        return computed

    async with StampedeGuard.from_url(own_valkey.url, namespace=namespace, policy=LONG) as guard:
        for _ in range(2):
            assert await soon(guard.get_or_compute("k", compute, tags=["t"])) == 1
        assert await guard.invalidate_tag("t") == "done"
        assert await soon(guard.get_or_compute("k", compute, tags=["t"])) == 2


# --- what must not grow -------------------------------------------------------------------------------------


async def test_pauses_are_bounded_and_need_one_timer() -> None:
    loop = asyncio.get_running_loop()
    clock = Clock()
    timers = []

    class Loop:
        time = loop.time

        @staticmethod
        def call_later(seconds: float, call: Any, *args: Any) -> Any:
            timers.append(seconds)
            return loop.call_later(seconds, call, *args)

    backoff = Backoff(Loop, clock)  # type: ignore[arg-type]
    for number in range(2 * MOST):
        backoff.pause(f"k{number}", 600.0)
    assert len(backoff) == MOST and len(timers) == 1
    assert backoff.hold(f"k{2 * MOST - 1}") and not backoff.hold("k0"), "the oldest goes first"
    clock.advance(601.0)
    assert not backoff.hold(f"k{2 * MOST - 1}")
    backoff._sweep()
    assert len(backoff) == 0 and backoff._timer is None


async def test_a_pause_ends_by_itself() -> None:
    backoff = Backoff(asyncio.get_running_loop())
    backoff.pause("k", 0.01)
    backoff.pause("later", 0.4)
    await until(lambda: not len(backoff))


# --- what must not take longer than in proportion ------------------------------------------------------------


class Counted(dict[Any, Any]):
    """Counts how many entries are looked at by those who walk through it."""

    looked = 0

    def values(self) -> Any:
        for value in super().values():
            Counted.looked += 1
            yield value

    def items(self) -> Any:
        for item in super().items():
            Counted.looked += 1
            yield item


async def test_thousands_of_passengers_may_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, count = Gate(), 3_000
    compared = 0

    def equal(one: object, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    monkeypatch.setattr(Passenger, "__eq__", equal, raising=False)
    monkeypatch.setattr(Passenger, "__hash__", object.__hash__, raising=False)

    async def compute() -> int:
        await gate.hold()
        return 1

    async with StampedeGuard(MemoryStore(), policy=Policy(ttl=60.0)) as guard:
        first = asyncio.ensure_future(guard.get_or_compute("k", compute))
        await gate.arrival()
        (flight,) = guard.engine.runtime().flights.values()
        callers = [asyncio.ensure_future(guard.get_or_compute("k", compute)) for _ in range(count)]
        await until(lambda: len(flight.passengers) == count + 1)
        flight.passengers._aboard = Counted(flight.passengers._aboard)
        Counted.looked = 0
        for caller in reversed(callers):
            caller.cancel()
        await soon(asyncio.gather(*callers, return_exceptions=True))
        assert len(flight.passengers) == 1
        assert compared < count and Counted.looked < count, "each that leaves searches through all others"
        gate.open()
        assert await soon(first) == 1


async def test_leaving_what_many_wait_for_costs_the_same_however_many_wait() -> None:
    once = Once(asyncio.get_running_loop())
    waiting = [asyncio.ensure_future(once.wait(60.0)) for _ in range(1_000)]
    await until(lambda: len(once) == 1_000)
    for task in waiting[:500]:
        task.cancel()
    await soon(asyncio.wait(waiting[:500]))
    assert len(once) == 500
    once.happen()
    await soon(asyncio.wait(waiting))
    assert len(once) == 0 and not waiting[-1].cancelled()
    await soon(once.wait(60.0))


async def test_flights_apart_land_without_a_search() -> None:
    """Values that may not be shared: each caller has a flight of its own, and all are of one entry."""
    gate = Gate()

    async def compute() -> int:
        await gate.hold()
        return 1

    async with StampedeGuard(
        MemoryStore(), policy=Policy(ttl=60.0), limits=Limits(max_flights=3_000)
    ) as guard:
        runtime = guard.engine.runtime()
        call = guard.locked_cache(name="k", should_cache=lambda value: False)(compute)
        first = asyncio.ensure_future(call())
        await gate.arrival()
        (flight,) = runtime.flights.values()
        plan, run = flight.plan, flight.computation._run
        apart = [runtime.take_off(flight.name, plan, run, (), alone=True) for _ in range(1_000)]
        assert len(runtime.flights.of(flight.name)) == 1_001
        await asyncio.sleep(0)
        for other in apart:
            other.task.cancel()
        await soon(asyncio.wait([other.task for other in apart]))
        assert runtime.flights.of(flight.name) == [flight] and not apart_of(runtime)
        gate.open()
        assert await soon(first) == 1


# --- the end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["aclose", "async with", "close of the plain functions' part"])
async def test_who_closes_second_waits_for_the_end_as_well(how: str) -> None:
    gate = Gate()

    async def compute() -> int:
        await gate.hold()
        return 1

    guard = StampedeGuard(FaultyStore(), policy=Policy(ttl=60.0), limits=Limits(drain_timeout=60.0))
    if how == "close of the plain functions' part":
        await _close_plain_functions_twice(guard)
        return
    caller = asyncio.ensure_future(guard.get_or_compute("k", compute))
    await gate.arrival()
    first = asyncio.ensure_future(guard.aclose())
    await until(lambda: not runtimes_of(guard))
    second = asyncio.ensure_future(guard.aclose() if how == "aclose" else guard.__aexit__(None, None, None))
    third = asyncio.ensure_future(guard.aclose())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not first.done() and not second.done(), "the first one drains"
    third.cancel()
    await asyncio.wait({third})
    assert third.cancelled() and not first.done(), "one who gives up waiting ends nothing"
    gate.open()
    await soon(asyncio.gather(first, second))
    assert caller.done() and await caller == 1
    assert not closing_of(guard)


async def _close_plain_functions_twice(guard: StampedeGuard) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @guard.locked_cache(name="plain")
    def plain() -> int:
        begun.set()
        assert go_on.wait(60)
        return 1

    caller = asyncio.ensure_future(asyncio.to_thread(plain))
    await until(begun.is_set)
    first = asyncio.ensure_future(asyncio.to_thread(guard.close))
    await until(lambda: closing_of(guard))
    others = [asyncio.ensure_future(asyncio.to_thread(guard.close)), asyncio.ensure_future(guard.aclose())]
    await asyncio.sleep(0.05)
    assert not first.done() and not any(other.done() for other in others)
    go_on.set()
    await soon(asyncio.gather(first, *others))
    assert await soon(caller) == 1


async def test_a_computation_may_close_its_own_guard() -> None:
    guard = StampedeGuard(MemoryStore(), policy=Policy(ttl=60.0), limits=Limits(drain_timeout=60.0))
    closing: list[asyncio.Task[None]] = []

    async def compute() -> int:
        closing.append(asyncio.ensure_future(asyncio.shield(guard.aclose())))
        await until(lambda: closing_of(guard))
        await guard.aclose()
        return 1

    assert await soon(guard.get_or_compute("k", compute)) == 1
    await soon(asyncio.gather(*closing))
