from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis
import redis.asyncio

from stampede_guard import Overloaded, Policy, PolicyError, StampedeGuard
from stampede_guard.api.keyed.plans import MOST_PLANS
from stampede_guard.engine.flights.flight import Flight
from stampede_guard.engine.loops import workers
from stampede_guard.errors import Misuse, UnsupportedValue, UrlError
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.values.codec import codec_for
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined, ours
from tests.support.heap import collect
from tests.support.inside import forget_plans, keep_plans_in, last_used_of, plan_of, plans_of, runtimes_of
from tests.support.sessions import patient
from tests.support.source import Counted


@dataclass
class Large:
    rows: int


# --- one computation ------------------------------------------------------------------------------------


async def test_one_computation_serves_every_caller_of_every_process(guards: Guards) -> None:
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    fleet = [guards.guard() for _ in range(3)]
    callers = [asyncio.create_task(guard.get_or_compute("k", compute)) for guard in fleet for _ in range(20)]
    await gate.arrival()
    for guard in fleet:
        await joined(guard, guards.name("k"), 20)
    gate.open()
    assert await soon(asyncio.gather(*callers)) == ["value"] * 60
    assert gate.entered == 1


async def test_a_cancelled_caller_cancels_nobody_else_whoever_it_is(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()

    async def compute() -> str:
        await gate.hold()
        return "value"

    callers = [asyncio.create_task(guard.get_or_compute("k", compute)) for _ in range(4)]
    await gate.arrival()
    await joined(guard, guards.name("k"), 4)
    for leaving in (callers[0], callers[2]):
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    gate.open()
    assert await soon(asyncio.gather(callers[1], callers[3])) == ["value"] * 2
    assert (gate.entered, gate.cancelled) == (1, 0)


async def test_a_computation_whose_callers_have_all_left_is_stored_for_the_next(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()

    async def compute() -> str:
        await gate.hold()
        return "value"

    caller = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    gate.open()
    await until(lambda: not guard.engine.runtime().flights)
    assert await guard.get_or_compute("k", compute) == "value"
    assert gate.entered == 1


async def test_a_value_lives_for_its_ttl_and_is_then_computed_anew(guards: Guards) -> None:
    guard, count = guards.guard(), Counted()
    assert await guard.get_or_compute("k", count, ttl=60) == 1
    await guards.age(guards.name("k"), 59)
    assert await guard.get_or_compute("k", count, ttl=60) == 1
    await guards.age(guards.name("k"), 1)
    assert await guard.get_or_compute("k", count, ttl=60) == 2


async def test_a_stale_value_is_served_at_once_and_refreshed_once_in_the_background(guards: Guards) -> None:
    gate, count = Gate(), Counted()
    here, there = guards.guard(ttl=60, stale_ttl=600), guards.guard(ttl=60, stale_ttl=600)
    await here.get_or_compute("k", count)
    await guards.age(guards.name("k"), 61)

    async def slow() -> int:
        await gate.hold()
        return await count()

    callers = [asyncio.create_task(guard.get_or_compute("k", slow)) for guard in (here, there) * 5]
    assert await soon(asyncio.gather(*callers)) == [1] * 10
    await gate.arrival()
    flight = (
        next(guard for guard in (here, there) if _computes(guard)).engine.runtime().flights[guards.name("k")]
    )
    gate.open()
    await soon(flight.landed)
    assert [await guard.get_or_compute("k", slow) for guard in (here, there)] == [2, 2]
    assert gate.entered == 1


def _computes(guard: StampedeGuard) -> bool:
    return any(flight.computing for flight in guard.engine.runtime().flights.values())


async def test_after_its_stale_time_a_value_is_gone(guards: Guards) -> None:
    guard, count = guards.guard(ttl=60, stale_ttl=600), Counted()
    await guard.get_or_compute("k", count)
    await guards.age(guards.name("k"), 660)
    assert await guard.get_or_compute("k", count) == 2


async def test_no_caller_after_an_invalidation_is_served_what_was_begun_before_it(guards: Guards) -> None:
    gate = Gate()
    here, there = guards.guard(), guards.guard()
    source = "before"

    async def compute() -> str:
        read = source
        await gate.hold()
        return read

    early = [asyncio.create_task(guard.get_or_compute("k", compute)) for guard in (here, here, there)]
    await gate.arrival()
    await joined(here, guards.name("k"), 1)
    source = "after"
    assert await there.invalidate("k") == "done"
    late = [asyncio.create_task(guard.get_or_compute("k", compute)) for guard in (here, there) * 3]
    await joined(here, guards.name("k"), 4)
    gate.open()
    assert await soon(asyncio.gather(*late)) == ["after"] * 6
    await soon(asyncio.gather(*early))
    assert gate.entered == 2
    assert await there.get_or_compute("k", compute) == "after"


# --- limits ---------------------------------------------------------------------------------------------


async def test_one_passenger_too_many_is_told_so_and_the_others_are_served(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard(max_passengers=2)

    async def compute() -> int:
        await gate.hold()
        return 1

    callers = [asyncio.create_task(guard.get_or_compute("k", compute)) for _ in range(2)]
    await joined(guard, guards.name("k"), 2)
    with pytest.raises(Overloaded, match=r"2 callers already wait .*max_passengers"):
        await soon(guard.get_or_compute("k", compute))
    await gate.arrival()
    gate.open()
    assert await soon(asyncio.gather(*callers)) == [1, 1]


async def test_one_flight_too_many_is_told_so_while_hits_are_served(guards: Guards) -> None:
    gate, count = Gate(), Counted()
    guard = guards.guard(max_flights=2)
    await guard.get_or_compute("hit", count)

    async def compute() -> int:
        await gate.hold()
        return 1

    callers = [asyncio.create_task(guard.get_or_compute(f"k{number}", compute)) for number in range(2)]
    for _ in callers:
        await gate.arrival()
    with pytest.raises(Overloaded, match=r"2 flights .*max_flights"):
        await soon(guard.get_or_compute("k3", compute))
    assert await guard.get_or_compute("hit", count) == 1
    gate.open()
    assert await soon(asyncio.gather(*callers)) == [1, 1]


@pytest.mark.parametrize("request_bound", [False, True])
async def test_a_stale_value_is_served_when_its_refresh_would_be_one_flight_too_many(
    guards: Guards, request_bound: bool
) -> None:
    gate, count = Gate(), Counted()
    guard = guards.guard(max_flights=1, ttl=60, stale_ttl=600)
    await guard.get_or_compute("stale", count)
    await guards.age(guards.name("stale"), 61)

    async def compute() -> int:
        await gate.hold()
        return 1

    caller = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    assert await soon(guard.get_or_compute("stale", count, request_bound=request_bound)) == 1
    gate.open()
    assert await soon(caller) == 1


# --- what cannot be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://localhost", "localhost:6379", "", "redis://localhost:x", "mysql://db/1"]
)
def test_a_url_that_names_no_store_is_refused_at_once(url: str) -> None:
    with pytest.raises(UrlError, match="store URL"):
        StampedeGuard.from_url(url)


def test_the_error_of_an_unknown_scheme_lists_those_that_are_known() -> None:
    with pytest.raises(UrlError, match=r"unknown scheme 'http' .* memory://, redis://, rediss://, unix://"):
        StampedeGuard.from_url("http://localhost")


@pytest.mark.parametrize("client", [None, "redis://localhost", redis.Redis(), object()])
def test_a_client_that_cannot_be_used_is_refused_and_the_error_says_what_can(client: Any) -> None:
    with pytest.raises(
        Misuse, match=r"needs a redis\.asyncio\.Redis or RedisCluster client, or a store, not"
    ):
        StampedeGuard(client)


@pytest.mark.parametrize("namespace", ["", "a b", "{shop}", "x" * 65, "shop\n"])
def test_a_namespace_that_cannot_stand_in_a_key_is_refused(namespace: str) -> None:
    with pytest.raises(Misuse, match="1 to 64 letters"):
        StampedeGuard(MemoryStore(), namespace=namespace)


async def test_namespaces_share_no_entry() -> None:
    store, count = MemoryStore(), Counted()
    one, two = StampedeGuard(store, namespace="one"), StampedeGuard(store, namespace="two")
    assert [await one.get_or_compute("k", count), await two.get_or_compute("k", count)] == [1, 2]
    await one.invalidate("k")
    assert await two.get_or_compute("k", count) == 2


@pytest.mark.parametrize("key", ["", "x" * 513, 7, None, b"k"])
async def test_a_key_that_is_no_text_of_a_sensible_length_is_refused(key: Any) -> None:
    guard, count = StampedeGuard(MemoryStore()), Counted()
    with pytest.raises(Misuse, match="a key must be a text of 1 to 512 characters"):
        await guard.get_or_compute(key, count)
    with pytest.raises(Misuse, match="a key must be a text"):
        guard.single(key)
    with pytest.raises(Misuse, match="a key must be a text"):
        await guard.invalidate(key)
    assert count.runs == 0


@pytest.mark.parametrize("key", ["{a}b", "ä ö", "a\nb", "\x00", "*", "%41", "A", "a:" * 200])
async def test_any_text_is_a_key_of_its_own(guards: Guards, key: str) -> None:
    guard, count = guards.guard(), Counted()
    assert await guard.get_or_compute(key, count) == 1
    assert await guard.get_or_compute(key, count) == 1
    assert await guard.get_or_compute(key + "x", count) == 2


async def test_a_computation_given_with_its_parentheses_is_refused_with_advice() -> None:
    guard, count = StampedeGuard(MemoryStore()), Counted()
    coroutine = count()
    with pytest.raises(Misuse, match="without parentheses, not a coroutine"):
        await guard.get_or_compute("k", coroutine)  # type: ignore[arg-type]
    coroutine.close()


@pytest.mark.parametrize("fields", [{"ttl": 0}, {"ttl": [1]}, {"tll": 1}, {"mode": {}}, {"stale_ttl": "1"}])
async def test_a_policy_field_that_cannot_be_is_refused_at_the_call(fields: dict[str, Any]) -> None:
    guard, count = StampedeGuard(MemoryStore()), Counted()
    with pytest.raises(PolicyError) as caught:
        await guard.get_or_compute("k", count, **fields)
    assert caught.value.field == next(iter(fields))
    assert count.runs == 0


async def test_if_strict_a_result_that_cannot_be_stored_is_an_error_for_everybody_that_says_what_to_write() -> (
    None
):
    guard = StampedeGuard(MemoryStore(), policy=Policy(strict=True))

    async def rows() -> Any:
        return contextlib.nullcontext()

    with pytest.raises(UnsupportedValue, match=r"contextlib nullcontext.*annotate the function"):
        await guard.get_or_compute("k", rows)
    with pytest.raises(UnsupportedValue, match=r"contextlib nullcontext"):
        await guard.get_or_compute("k", rows)


async def test_a_value_over_max_value_bytes_is_served_and_not_stored_with_one_warning(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = (guards.guard(max_value_bytes=100, inline_bytes=100) for _ in range(2))
    runs = []

    async def large() -> str:
        runs.append(1)
        return "x" * 101

    for guard in (here, there, here):
        assert await guard.get_or_compute("k", large) == "x" * 101
    assert len(runs) == 3
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 2, "one in each process"
    assert "max_value_bytes is 100" in warnings[0]
    assert await guards.lease_holder(guards.name("k")) == ""


async def test_a_stored_value_that_cannot_be_decoded_is_a_miss_with_one_warning_and_is_replaced(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    count = Counted()
    reader, other = guards.guard(), guards.guard()
    await guards.put(guards.name("k", int), codec_for(str).encode("not a number"))
    callers = [reader.get_or_compute("k", count, type=int) for _ in range(5)]
    assert await soon(asyncio.gather(*callers)) == [1] * 5
    assert await other.get_or_compute("k", count, type=int) == 1, "replaced for everybody"
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "cannot be decoded and counts as a miss" in warnings[0]
    assert "not a number" not in warnings[0], "values stay out of logs"


async def test_damage_in_the_store_is_a_miss(
    valkey: redis.asyncio.Redis, valkey_url: str, namespace: str
) -> None:
    async with Guards(patient(valkey_url), namespace) as guards:
        guard, count = guards.guard(), Counted()
        name = guards.name("k", int)
        endless = b"SG1" + b"9" * 16 + b"%012d%012d" % (60_000, 0) + codec_for(int).encode(0)
        for damage in (b"", b"SG1", b"garbage", b"SG1" + b"0" * 40, b"SG1" + b"0" * 40 + b"\xc1", endless):
            before = count.runs
            await valkey.set(f"{{{name}}}:v", damage, px=60_000)
            assert await soon(guard.get_or_compute("k", count, type=int)) == before + 1, damage
            assert await soon(guard.get_or_compute("k", count, type=int)) == before + 1, damage
            await guard.invalidate("k", type=int)


async def test_a_wrong_password_costs_the_cache_and_is_logged_once(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = valkey_url.replace("redis://", "redis://nobody:secret@")
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:
        gate = Gate()

        async def compute() -> str:
            await gate.hold()
            return "value"

        callers = [asyncio.create_task(guard.get_or_compute("k", compute)) for _ in range(10)]
        await gate.arrival()
        gate.open()
        assert await soon(asyncio.gather(*callers)) == ["value"] * 10
        assert gate.entered == 1
        await soon(guard.get_or_compute("k2", compute))
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "the store refuses this guard" in errors[0]
    assert "secret" not in caplog.text


async def test_a_store_that_is_away_at_the_start_is_no_error_and_is_used_when_it_comes(
    unused_tcp_port: int, namespace: str
) -> None:
    from bench.herd.valkey import ValkeyServer

    count = Counted()
    url = f"redis://127.0.0.1:{unused_tcp_port}/0"
    async with Guards(url, namespace) as guards:
        guard = guards.guard()
        assert await soon(guard.get_or_compute("k", count)) == 1
        assert await soon(guard.invalidate("k")) == "pending"
        assert await soon(guard.get_or_compute("k", count)) == 2
        with ValkeyServer(port=unused_tcp_port):
            await until(lambda: not guard.engine.runtime().away)
            third = await soon(guard.get_or_compute("k", count))
            assert await soon(guards.guard().get_or_compute("k", count)) == third, "stored now"


# --- signs ----------------------------------------------------------------------------------------------


async def test_a_flight_that_collapses_callers_says_so_in_one_structured_line(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    gate, count = Gate(), Counted()
    guard = guards.guard()

    @guard.locked_cache(name="shop.quality")
    async def quality(project: str) -> int:
        await gate.hold()
        return 1

    with caplog.at_level(logging.INFO, logger="stampede_guard"):
        callers = [asyncio.create_task(quality("secret-project")) for _ in range(3)]
        await gate.arrival()
        await joined(guard, quality.key("secret-project"), 3)
        gate.open()
        await soon(asyncio.gather(*callers))
        await until(lambda: not guard.engine.runtime().flights)
        await guard.get_or_compute("alone", count)
    (line,) = caplog.records
    assert line.getMessage() == "shop.quality: 3 callers were served by one flight"
    assert (line.function, line.callers, line.collapsed) == ("shop.quality", 3, 2)  # type: ignore[attr-defined]
    assert "secret-project" not in caplog.text


async def test_the_memory_store_in_one_of_several_workers_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "8")
    monkeypatch.setattr(workers, "_warned", set())
    count = Counted()
    for namespace in ("one", "two"):
        await StampedeGuard(MemoryStore(), namespace=namespace).get_or_compute("k", count)
    (line,) = caplog.records
    assert "this process is probably one of several workers" in line.getMessage()
    assert "StampedeGuard.from_url('redis://...')" in line.getMessage()


async def test_a_store_that_all_workers_see_is_nothing_to_warn_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, valkey_url: str, namespace: str
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "8")
    monkeypatch.setattr(workers, "_warned", set())
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:
        await guard.get_or_compute("k", Counted())
    assert caplog.records == []


async def test_an_entry_is_named_in_logs_by_its_name_and_by_no_part_of_its_key(guards: Guards) -> None:
    guard = guards.guard(max_flights=1)
    gate = Gate()

    async def compute() -> int:
        await gate.hold()
        return 1

    caller = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    for key, given, name in (("report:7", "report", "report"), ("alice:7", None, "get_or_compute")):
        with pytest.raises(Overloaded) as caught:
            await guard.get_or_compute(key, compute, name=given)
        assert str(caught.value).startswith(f"{guards.namespace}:{name}: ")
    gate.open()
    await soon(caller)


# --- the end --------------------------------------------------------------------------------------------


async def test_closing_lets_flights_end_and_their_callers_have_their_values(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()

    async def compute() -> str:
        await gate.hold()
        return "value"

    caller = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    closing = asyncio.create_task(guard.aclose())
    await until(lambda: last_used_of(guard) is None)
    gate.open()
    await soon(closing)
    assert await soon(caller) == "value"
    assert await guards.guard().get_or_compute("k", compute) == "value"
    assert gate.entered == 1


async def test_closing_ends_what_does_not_end_and_gives_its_lease_back(guards: Guards) -> None:
    gate = Gate()
    guard, other = guards.guard(drain_timeout=0.05), guards.guard()

    async def compute() -> str:
        await gate.hold()
        return "value"

    caller = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    assert await guards.lease_holder(guards.name("k"))
    await soon(guard.aclose())
    assert gate.cancelled == 1
    with pytest.raises(TimeoutError, match="shutting down"):
        await soon(caller)
    assert await guards.lease_holder(guards.name("k")) == ""
    gate.open()
    assert await soon(other.get_or_compute("k", compute)) == "value"


async def test_a_computation_that_calls_another_function_while_the_guard_closes_is_let_end(
    guards: Guards,
) -> None:
    gate = Gate()
    guard = guards.guard()

    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        await gate.hold()
        return "outer and " + await guard.get_or_compute("inner", inner)

    caller = asyncio.create_task(guard.get_or_compute("outer", outer))
    await gate.arrival()
    closing = asyncio.create_task(guard.aclose())
    await until(lambda: last_used_of(guard) is None)
    gate.open()
    assert await soon(caller) == "outer and inner"
    await soon(closing)
    assert ours() == set()
    assert runtimes_of(guard) == {}


async def test_a_closed_guard_can_be_used_again_and_closing_twice_is_nothing(guards: Guards) -> None:
    guard, count = guards.guard(), Counted()
    async with guard as same:
        assert same is guard
        assert await guard.get_or_compute("k", count) == 1
    await guard.aclose()
    assert await guard.get_or_compute("k", count) == 1
    await guard.aclose()
    assert ours() == set()


async def test_nothing_is_kept_per_key_after_flights_have_landed(guards: Guards) -> None:
    guard, count = guards.guard(last_value_bytes=0, error_ttl=0), Counted()

    async def fails() -> int:
        raise LookupError

    for number in range(200):
        await guard.get_or_compute(f"k{number}", count)
        with pytest.raises(LookupError):
            await guard.get_or_compute(f"f:{number}", fails)
    runtime = guard.engine.runtime()
    await until(lambda: not runtime.flights)
    assert (runtime.fallbacks, runtime.abandoned, len(runtime.last)) == ({}, 0, 0)
    assert len(plans_of(guard)) == 1

    def left() -> list[str]:
        collect()
        flights = [thing.name for thing in gc.get_objects() if type(thing) is Flight]
        return [name for name in flights if name.startswith(guards.namespace)]

    # The last flight's task has one more turn of the event loop to take.
    await until(lambda: left() == [])


async def test_plans_of_computed_names_do_not_pile_up() -> None:
    guard, count = StampedeGuard(MemoryStore()), Counted()
    for number in range(MOST_PLANS + 200):
        await guard.get_or_compute(f"{number}:k", count, name=f"kind-{number}")
    assert len(plans_of(guard)) == MOST_PLANS


async def test_a_value_is_freed_when_nobody_holds_it() -> None:
    guard = StampedeGuard(MemoryStore(), policy=Policy(share=True))
    seen: list[weakref.ref[Any]] = []

    async def compute() -> Any:
        return 1

    @guard.locked_cache()
    async def large() -> Large:
        value = Large(1)
        seen.append(weakref.ref(value))
        return value

    await guard.get_or_compute("k", compute)
    await large()
    await until(lambda: not guard.engine.runtime().flights)

    def freed() -> bool:
        collect()
        return seen[0]() is None

    # The flight's task has one more turn of the event loop to take.
    await until(freed)


# --- event loops ------------------------------------------------------------------------------------------


def in_a_loop_of_its_own(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    results: list[Any] = []

    def run() -> None:
        results.append(asyncio.run(main()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert results, "the other loop failed; its traceback is above"
    return results[0]


def test_a_guard_made_before_any_event_loop_serves_several_in_turn(valkey_url: str, namespace: str) -> None:
    guard, count = StampedeGuard.from_url(patient(valkey_url), namespace=namespace), Counted()

    async def main() -> int:
        async with guard:
            return await guard.get_or_compute("k", count)

    assert [asyncio.run(main()) for _ in range(3)] == [1, 1, 1]
    assert runtimes_of(guard) == {}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_loops_that_end_without_closing_leave_nothing_behind_but_the_last() -> None:
    guard, count = StampedeGuard(MemoryStore()), Counted()

    async def main() -> int:
        return await guard.get_or_compute("k", count)

    for _ in range(5):
        asyncio.run(main())
    assert len(runtimes_of(guard)) == 1
    assert count.runs == 1


async def test_two_event_loops_at_once_share_one_computation(valkey_url: str, namespace: str) -> None:
    guard, gate = StampedeGuard.from_url(patient(valkey_url), namespace=namespace), Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    async def other() -> str:
        async def forbidden() -> str:
            raise AssertionError("computed twice")

        async with guard:
            waiting = asyncio.create_task(guard.get_or_compute("k", forbidden))
            await joined(guard, f"{namespace}:=k", 1)
            loop.call_soon_threadsafe(gate.open)
            return await soon(waiting)

    loop = asyncio.get_running_loop()
    async with guard:
        here = asyncio.create_task(guard.get_or_compute("k", compute))
        await gate.arrival()
        assert await asyncio.to_thread(in_a_loop_of_its_own, other) == "value"
        assert await soon(here) == "value"


async def test_event_loops_in_several_threads_never_see_each_others_part() -> None:
    """The guard remembers the part it was asked for last, while other threads do the same."""
    guard = StampedeGuard(MemoryStore())

    async def hammer() -> int:
        loop = asyncio.get_running_loop()
        return sum(guard.engine.runtime().loop is loop for _ in range(20_000))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        right = await asyncio.gather(*[asyncio.to_thread(in_a_loop_of_its_own, hammer) for _ in range(3)])
    finally:
        sys.setswitchinterval(interval)
    assert right == [20_000] * 3


async def test_an_invalidation_reaches_the_flights_of_other_loops() -> None:
    guard, gate = StampedeGuard(MemoryStore()), Gate()
    loop = asyncio.get_running_loop()
    source = "before"

    async def compute() -> str:
        read = source
        await gate.hold()
        return read

    async def invalidates() -> Any:
        return await guard.invalidate("k")

    early = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    source = "after"
    assert await asyncio.to_thread(in_a_loop_of_its_own, invalidates) == "done"
    late = asyncio.create_task(guard.get_or_compute("k", compute))
    await joined(guard, "default:=k", 2)
    loop.call_soon(gate.open)
    assert await soon(late) == "after"
    assert await soon(early) in ("before", "after")


async def test_two_types_under_one_key_are_two_entries() -> None:
    async with StampedeGuard.from_url("memory://", namespace="types") as guard:

        async def number() -> int:
            return 7

        async def text() -> str:
            return "seven"

        assert await guard.get_or_compute("seven", number, type=int) == 7
        assert await guard.get_or_compute("seven", text, type=str) == "seven"
        assert await guard.get_or_compute("seven", text, type=int) == 7
        assert await guard.invalidate("seven", type=int) == "done"
        assert await guard.get_or_compute("seven", number, type=int) == 7


async def test_an_invalidation_without_a_type_drops_the_entries_of_all_types_used_by_this_guard() -> None:
    async with StampedeGuard.from_url("memory://", namespace="types") as guard:
        count = Counted()

        async def text() -> str:
            return str(await count())

        keys = ["report:7", "report:8"]
        for key in keys:
            assert isinstance(await guard.get_or_compute(key, count, type=int), int)
            assert isinstance(await guard.get_or_compute(key, text, type=str), str)
            assert isinstance(await guard.get_or_compute(key, count), int)
        forget_plans(guard)
        assert await guard.invalidate("report:7") == "done"
        assert await guard.get_or_compute("report:7", count, type=int) == 7
        assert await guard.get_or_compute("report:7", text, type=str) == "8"
        assert await guard.get_or_compute("report:7", count) == 9
        await guard.get_or_compute("report:8", count, type=int)
        assert count.runs == 9, "other keys keep theirs"
        for number in range(MOST_PLANS + 50):
            await guard.get_or_compute(f"type{number}:7", count, type=int, name=f"type{number}")
        assert len(plans_of(guard)) == MOST_PLANS


def test_two_threads_that_give_up_an_old_plan_at_once_are_no_error() -> None:
    guard = StampedeGuard(MemoryStore())
    both_there = threading.Barrier(2)

    class Meeting(dict[Any, Any]):
        def __iter__(self) -> Iterator[Any]:
            oldest = next(super().__iter__())
            with contextlib.suppress(threading.BrokenBarrierError):
                both_there.wait(timeout=0.5)
            return iter([oldest])

    for number in range(MOST_PLANS):
        plan_of(guard, "k", name=f"kind{number}")
    keep_plans_in(guard, Meeting)
    errors: list[BaseException] = []

    def make(name: str) -> None:
        try:
            plan_of(guard, "k", name=name)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=make, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(plans_of(guard)) == MOST_PLANS
