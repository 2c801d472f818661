"""Each event is told when, and only when, what it says has happened."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from stampede_guard import ComputeTimeout, Misuse, Policy, ReentrantCall, StampedeGuard, WaitTimeout
from stampede_guard.core.scripts import Granted
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.events import (
    BreakerClosed,
    BreakerOpened,
    Collapsed,
    Computed,
    Fallback,
    Hit,
    Invalidated,
    LeaseLapsed,
    Miss,
    Refreshed,
    RoundTrip,
    Stale,
    Started,
    Stored,
    TakenOver,
    TimedOut,
    Waited,
)
from stampede_guard.stores.memory import MemoryStore
from tests.ops.observe.recorder import Recorder
from tests.support.clock import Clock
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import plan_of

KEY = "report:7"


def watched(guards: Guards, **fields: float) -> tuple[StampedeGuard, Recorder]:
    guard, recorder = guards.guard(**fields), Recorder()
    guard.add_hook(recorder)
    return guard, recorder


async def value() -> str:
    return "value"


async def test_a_computation_and_a_hit_tell_their_story(guards: Guards) -> None:
    guard, told = watched(guards)
    await guard.get_or_compute(KEY, value, ttl=60)
    assert [type(event) for event in told.events] == [Miss, Started, Computed, Stored, Waited]
    (started,), (computed,), (waited,) = told.of(Started), told.of(Computed), told.of(Waited)
    assert started.flight == computed.flight == waited.flight
    assert (computed.error, waited.outcome) == ("", "computed")
    assert 0 <= computed.seconds <= waited.seconds
    assert computed.entry == guards.name(KEY)
    assert computed.function == f"{guards.namespace}:get_or_compute"
    told.forget()
    await guard.get_or_compute(KEY, value, ttl=60)
    assert told.events == [Hit(f"{guards.namespace}:get_or_compute", guards.name(KEY))]


async def test_hits_of_decorated_functions_are_told_too(guards: Guards) -> None:
    guard, told = watched(guards)

    @guard.locked_cache(ttl=60)
    async def double(number: int) -> int:
        return 2 * number

    @guard.cached_many(ttl=60)
    async def doubles(ids: list[int]) -> dict[int, int]:
        return {id: 2 * id for id in ids}

    assert [await double(4), await double(4)] == [8, 8]
    assert [await doubles([1, 2]), await doubles([1, 2])] == [{1: 2, 2: 4}] * 2
    assert told.counts()["Miss"] == told.counts()["Hit"] == 3
    assert {event.function for event in told.of(Hit)} == {
        f"{__name__}.{function.__qualname__}" for function in (double, doubles)
    }


async def test_a_herd_is_told_as_collapsed_callers(guards: Guards) -> None:
    guard, told = watched(guards)
    other, told_there = watched(guards)
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    calls = [asyncio.create_task(guard.get_or_compute(KEY, compute, ttl=60)) for _ in range(10)]
    await gate.arrival()
    calls += [asyncio.create_task(other.get_or_compute(KEY, compute, ttl=60)) for _ in range(5)]
    await until(lambda: told_there.counts()["Miss"] == 5)
    gate.open()
    assert set(await soon(asyncio.gather(*calls))) == {"value"}
    await until(lambda: told.of(Collapsed) and told_there.of(Collapsed))
    assert [event.callers for event in told.of(Collapsed)] == [9]
    assert told.outcomes() == {"computed": 1, "collapsed": 9}
    assert sum(event.callers for event in told_there.of(Collapsed)) == 5
    assert told_there.outcomes() == {"collapsed": 5}
    assert told_there.of(Computed) == []


async def test_a_failure_is_told_by_its_class_and_not_by_its_words(guards: Guards) -> None:
    guard, told = watched(guards)

    async def fail() -> str:
        raise LookupError("secret")

    with pytest.raises(LookupError):
        await guard.get_or_compute(KEY, fail)
    assert [event.error for event in told.of(Computed)] == ["LookupError"]
    assert told.outcomes() == {"error": 1}
    assert "secret" not in repr(told.events)


async def test_a_stale_value_is_told_with_the_refresh_behind_it(guards: Guards) -> None:
    guard, told = watched(guards)
    await guard.get_or_compute(KEY, value, ttl=60, stale_ttl=600)
    await guards.age(guards.name(KEY), 61)
    told.forget()
    assert await guard.get_or_compute(KEY, value, ttl=60, stale_ttl=600) == "value"
    await until(lambda: told.of(Stored))
    assert [type(event) for event in told.events] == [Stale, Started, Computed, Stored]


async def test_a_caller_that_leaves_is_told_as_cancelled(guards: Guards) -> None:
    guard, told = watched(guards)
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    calls = [asyncio.create_task(guard.get_or_compute(KEY, compute)) for _ in range(2)]
    await gate.arrival()
    calls[1].cancel()
    await asyncio.wait({calls[1]})
    gate.open()
    await soon(calls[0])
    assert told.outcomes() == {"computed": 1, "cancelled": 1}


async def test_a_caller_that_leaves_after_its_time_was_over_is_told_as_cancelled(guards: Guards) -> None:
    guard, told = watched(guards)
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    call = asyncio.create_task(guard.get_or_compute(KEY, compute, wait_timeout=0.05))
    await until(lambda: told.of(TimedOut))
    call.cancel()
    await asyncio.wait({call})
    gate.open()
    assert told.outcomes() == {"cancelled": 1}


async def test_a_call_that_would_wait_for_itself_is_told_as_an_error(guards: Guards) -> None:
    guard, told = watched(guards)

    async def compute() -> str:
        return await guard.get_or_compute(KEY, value)

    with pytest.raises(ReentrantCall):
        await soon(guard.get_or_compute(KEY, compute))
    assert told.outcomes() == {"error": 2}


async def test_a_value_that_a_last_look_found_is_told_as_another_callers(guards: Guards) -> None:
    holder, _ = watched(guards)
    guard, told = watched(guards)
    gate, name = Gate(), guards.name(KEY)

    async def compute() -> str:
        await gate.hold()
        return "late"

    holding = asyncio.create_task(holder.get_or_compute(KEY, compute))
    await gate.arrival()
    session = holder.engine.runtime().session
    beside = await session.fallback(name, flight="beside", policy=Policy(), newer_than=0)
    assert isinstance(beside, Granted)
    stored = False
    read = guard.engine.runtime().session.read

    def last_look(name: str) -> Any:
        async def look() -> Any:
            nonlocal stored
            stored = await session.publish(
                name, flight="beside", grant=beside, outcome="value", body=b"\xa5value", policy=Policy()
            )
            return await read(name)

        return asyncio.ensure_future(look() if told.of(TimedOut) else read(name))

    guard.engine.runtime().session.read = last_look  # type: ignore[method-assign]
    guard.engine.runtime().read = last_look
    deaf = guard.engine.runtime().flights.concerned
    guard.engine.runtime().flights.concerned = lambda name, message: []  # type: ignore[method-assign]
    call = guard.get_or_compute(KEY, value, wait_timeout=0.05, fallback_limit=0)
    assert await soon(call) == "value"
    assert stored and told.outcomes() == {"collapsed": 1}
    guard.engine.runtime().flights.concerned = deaf  # type: ignore[method-assign]
    gate.open()
    await soon(holding)


async def test_times_that_are_over_are_told_by_their_field(guards: Guards) -> None:
    holder, _ = watched(guards)
    guard, told = watched(guards)
    gate, never = Gate(), Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    async def hang() -> str:
        await never.hold()
        return "never"

    holding = asyncio.create_task(holder.get_or_compute(KEY, compute))
    await gate.arrival()
    with pytest.raises(WaitTimeout):
        await guard.get_or_compute(KEY, hang, wait_timeout=0.05, fallback_timeout=0.05)
    assert [event.what for event in told.of(TimedOut)] == ["wait_timeout", "fallback_timeout"]
    assert [event.outcome for event in told.of(Fallback)] == ["failed"]
    assert [event.fallback for event in told.of(Computed)] == [True]
    assert told.outcomes() == {"timeout": 1}
    gate.open()
    await soon(holding)
    told.forget()
    with pytest.raises(ComputeTimeout):
        await guard.get_or_compute("other:1", hang, compute_timeout=0.05)
    assert [event.what for event in told.of(TimedOut)] == ["compute_timeout"]
    assert [event.error for event in told.of(Computed)] == ["CancelledError"]


async def test_a_fallback_that_served_its_caller_is_told(guards: Guards) -> None:
    holder, _ = watched(guards)
    guard, told = watched(guards)
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "late"

    holding = asyncio.create_task(holder.get_or_compute(KEY, compute))
    await gate.arrival()
    assert await soon(guard.get_or_compute(KEY, value, wait_timeout=0.05)) == "value"
    assert [event.outcome for event in told.of(Fallback)] == ["served"]
    assert [(event.fallback, event.error) for event in told.of(Computed)] == [(True, "")]
    assert [event.fallback for event in told.of(Started)] == [True]
    gate.open()
    await soon(holding)


async def test_a_holder_that_has_vanished_is_told_as_taken_over() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    policy = Policy(lease_ttl=600.0, takeover_gap=0.05, poll_interval=0.05)
    holder = StampedeGuard(store, policy=policy)
    guard = StampedeGuard(store, policy=policy, hooks=(told := Recorder(),))
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "late"

    late = asyncio.create_task(holder.get_or_compute(KEY, compute))
    await gate.arrival()
    taking = asyncio.create_task(guard.get_or_compute(KEY, value))
    await until(lambda: told.of(Miss))
    session: Any = holder.engine.runtime().session
    store.unsubscribe(session._inbox)  # as a process that dies does
    await until(lambda: clock.advance(0.1) or taking.done())
    assert await taking == "value"
    assert [event.entry for event in told.of(TakenOver)] == [f"default:={KEY}"]
    gate.open()
    await soon(late)
    await asyncio.gather(holder.aclose(), guard.aclose())


async def test_a_lease_that_lapses_under_a_computation_is_told(guards: Guards) -> None:
    guard, told = watched(guards, lease_ttl=0.3, takeover_gap=0.1, poll_interval=0.1)
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    call = asyncio.create_task(guard.get_or_compute(KEY, compute))
    await gate.arrival()
    flight = guard.engine.runtime().flights[guards.name(KEY)]
    assert await guard.engine.runtime().session.release(guards.name(KEY), flight=flight.id)
    await until(lambda: told.of(LeaseLapsed))
    gate.open()
    assert await soon(call) == "value"
    assert len(told.of(LeaseLapsed)) == 1


async def test_an_invalidation_is_told(guards: Guards) -> None:
    guard, told = watched(guards)
    await guard.invalidate(KEY)
    assert told.events == [Invalidated(guards.name(KEY), True)]


async def test_the_log_says_why_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    guard = StampedeGuard(MemoryStore())
    with caplog.at_level(logging.WARNING, logger="stampede_guard"):
        guard.engine.runtime().breaker_changed(away=True, part="h:1", why="Connect call failed")
    assert (
        "the store's server h:1 is away (Connect call failed): each process computes once per key"
        in caplog.text
    )
    await guard.aclose()


async def test_the_breaker_tells_its_changes() -> None:
    guard = StampedeGuard(MemoryStore(), hooks=(told := Recorder(),))
    runtime: Runtime = guard.engine.runtime()
    runtime.breaker_changed(away=True)
    runtime.breaker_changed(away=True, part="10.0.0.7:6379")
    runtime.breaker_changed(away=False)
    assert told.events == [BreakerOpened(), BreakerOpened("10.0.0.7:6379"), BreakerClosed()]
    await guard.aclose()


async def test_a_hook_that_fails_harms_nobody_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("a hook's own fault")

    guard = StampedeGuard(MemoryStore(), hooks=(broken, told := Recorder()), policy=Policy(ttl=60))
    with caplog.at_level(logging.ERROR, logger="stampede_guard"):
        assert [await guard.get_or_compute(KEY, value) for _ in range(3)] == ["value"] * 3
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert told.counts()["Hit"] == 2, "the next hook is told all the same"
    await guard.aclose()


@pytest.mark.parametrize("kind", [Miss, Started, Computed, Waited, Collapsed])
async def test_a_hook_that_raises_a_cancellation_cancels_nobody(kind: type) -> None:
    def looks_at_a_cancelled_future(event: object) -> None:
        if isinstance(event, kind):
            raise asyncio.CancelledError

    guard = StampedeGuard(MemoryStore(), hooks=(looks_at_a_cancelled_future,))
    calls = [guard.get_or_compute(KEY, value) for _ in range(3)]
    assert await soon(asyncio.gather(*calls, return_exceptions=True)) == ["value"] * 3
    assert not guard.engine.runtime().flights
    await guard.aclose()


async def test_a_hook_may_call_the_guard_and_add_a_hook() -> None:
    calls: list[asyncio.Task[str]] = []
    told = Recorder()

    def hook(event: object) -> None:
        if isinstance(event, Started) and not calls:
            guard.add_hook(told)
            calls.append(asyncio.get_running_loop().create_task(guard.get_or_compute("another", value)))

    guard = StampedeGuard(MemoryStore(), hooks=(hook,))
    assert await soon(guard.get_or_compute(KEY, value)) == "value"
    assert await soon(calls[0]) == "value"
    assert told.counts()["Computed"] == 2 and told.counts()["Started"] == 1
    await guard.aclose()


def test_a_hook_that_would_have_to_be_awaited_is_refused() -> None:
    async def hook(event: object) -> None: ...

    class Hook:
        async def __call__(self, event: object) -> None: ...

    for wrong in (hook, Hook()):
        with pytest.raises(Misuse, match="called and not awaited"):
            StampedeGuard(MemoryStore(), hooks=(wrong,))


def test_what_cannot_be_called_is_no_hook() -> None:
    with pytest.raises(Misuse, match="a function or an object with __call__, not a str"):
        StampedeGuard(MemoryStore(), hooks=("log",))  # type: ignore[arg-type]
    with pytest.raises(Misuse, match=r"an object, not a class: write hooks=\(Recorder\(\),\)"):
        StampedeGuard(MemoryStore(), hooks=(Recorder,))


async def test_without_hooks_a_hit_takes_the_shortest_way_and_with_one_it_does_not() -> None:
    guard = StampedeGuard(MemoryStore())

    @guard.locked_cache(ttl=60)
    async def one() -> int:
        return 1

    await one()
    plan = plan_of(guard, KEY, int)
    asked = guard.engine.hits.ask(plan, "k")
    assert asked is not None and asked[0] is guard.engine.runtime() and await asked[2] is None
    guard.add_hook(Recorder())
    assert guard.engine.hits.ask(plan, "k") is None
    await guard.aclose()


# --- refreshes -------------------------------------------------------------------------------------------


def story(told: Recorder) -> list[type]:
    return [type(event) for event in told.events]


async def test_a_refresh_is_told_as_one_and_not_as_a_wait_without_a_miss(guards: Guards) -> None:
    guard, told = watched(guards)

    @guard.locked_cache(ttl=60)
    async def quality(project: int) -> int:
        return project

    await quality(7)
    told.forget()
    assert await quality.refresh(7) == 7
    assert story(told) == [Started, Computed, Stored, Refreshed]
    (refreshed,), (started,) = told.of(Refreshed), told.of(Started)
    assert (refreshed.outcome, refreshed.flight) == ("computed", started.flight)
    assert refreshed.seconds >= told.of(Computed)[0].seconds


async def test_so_is_one_that_fails_and_one_of_many(guards: Guards) -> None:
    guard, told = watched(guards)

    @guard.cached_many(ttl=60)
    async def doubles(ids: list[int]) -> dict[int, int]:
        if 3 in ids:
            raise LookupError
        return {id: 2 * id for id in ids}

    await doubles.refresh([1, 2])
    with pytest.raises(LookupError):
        await doubles.refresh([3])
    assert [event.outcome for event in told.of(Refreshed)] == ["computed", "computed", "error"]
    assert not told.of(Miss) and not told.of(Waited)


async def test_a_refresh_that_waits_in_vain_for_an_older_computation_is_told_too(guards: Guards) -> None:
    guard, told = watched(guards, wait_timeout=0.05, fallback_limit=0)
    gate = Gate()

    @guard.locked_cache(ttl=60, compute_timeout=60)
    async def quality(project: int) -> int:
        await gate.hold()
        return project

    caller = asyncio.create_task(quality(7))
    await gate.arrival()
    with pytest.raises(WaitTimeout):
        await quality.refresh(7)
    assert [event.outcome for event in told.of(Refreshed)] == ["timeout"]
    gate.open()
    await asyncio.wait({caller})


async def test_in_mode_bypass_it_is_a_call_like_any_other(guards: Guards) -> None:
    guard, told = watched(guards)

    @guard.locked_cache(ttl=60, mode="bypass")
    async def quality(project: int) -> int:
        return project

    await quality.refresh(7)
    assert story(told) == [Miss, Started, Computed, Waited]


async def test_a_stored_value_tells_its_size_and_a_failure_or_a_hit_none(guards: Guards) -> None:
    guard, told = watched(guards)
    await guard.get_or_compute(KEY, value, ttl=60)
    await guard.get_or_compute(KEY, value, ttl=60)
    with pytest.raises(LookupError):
        await guard.get_or_compute("broken", broken, ttl=60)
    (stored,) = told.of(Stored)
    assert stored == Stored(f"{guards.namespace}:get_or_compute", guards.name(KEY), stored.size)
    assert 5 < stored.size < 10


async def broken() -> str:
    raise LookupError


async def test_answers_of_a_server_are_sampled(guards: Guards) -> None:
    guard, samples = guards.guard(), list[RoundTrip]()
    if guards.memory is not None:
        return  # nothing travels inside one process
    await guard.get_or_compute(KEY, value, ttl=60)
    guard.add_hook(lambda event: samples.append(event) if isinstance(event, RoundTrip) else None)

    async def hits() -> None:
        while not samples:
            await guard.get_or_compute(KEY, value, ttl=60)

    await soon(hits())
    assert 0 < samples[0].seconds < 10 and samples[0].part == ""
