"""A herd says how many computations it cost, in workers that share nothing but the store."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import fakeredis
import pytest

from stampede_guard import Misuse, StampedeGuard, cached_many, configure, locked_cache
from stampede_guard.api import defaults
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.loops.event_loops import Runtimes
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FakeClock, herd
from tests.support.gate import Gate, soon
from tests.support.guards import ours
from tests.support.inside import limit, store_of
from tests.support.titles import titled


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def guard(clock: FakeClock) -> AsyncIterator[StampedeGuard]:
    async with StampedeGuard(MemoryStore(clock=clock), namespace="test") as made:
        yield made


async def test_a_cached_function_costs_one_computation_however_many_workers_ask(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"project": project}

    result = await herd(quality, args=(7,), callers=50, workers=8)
    assert len(store_of(guard)._subscribers) == 0, "the workers have ended"  # type: ignore[attr-defined]
    assert result.computations == 1
    assert result.values == ({"project": 7},) * 50
    assert result.errors == ()
    assert (result.callers, result.workers, len(result.waited)) == (50, 8, 50)
    assert all(seconds >= 0 for seconds in result.waited)


async def test_it_counts_this_herds_computations_and_not_earlier_ones(
    guard: StampedeGuard, clock: FakeClock
) -> None:
    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> int:
        return project

    await quality(7)
    assert (await herd(quality, args=(7,))).computations == 0
    clock.advance(300)
    assert (await herd(quality, args=(7,))).computations == 1


async def test_workers_share_the_store_and_no_flight(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300, mode="bypass")
    async def quality(project: int) -> int:
        await asyncio.sleep(0)
        return project

    # Without the store nothing joins the workers: each has one flight.
    assert (await herd(quality, args=(7,), callers=40, workers=8)).computations == 8
    assert (await herd(quality, args=(7,), callers=40, workers=1)).computations == 1


async def test_a_function_that_is_not_protected_is_seen_to_compute_for_every_caller(
    guard: StampedeGuard,
) -> None:
    @guard.locked_cache(ttl=300, mode="off")
    async def quality(project: int) -> int:
        return project

    assert (await herd(quality, args=(7,), callers=20, workers=4)).computations == 20


async def test_a_cached_function_that_another_one_calls_is_asked_by_the_same_workers(
    guard: StampedeGuard,
) -> None:
    runtimes = set()

    @guard.locked_cache(ttl=300)
    async def inner() -> int:
        runtimes.add(guard.engine.runtime())
        return 1

    @guard.locked_cache(ttl=300, mode="bypass")
    async def outer() -> int:
        runtimes.add(guard.engine.runtime())
        return await inner()

    result = await herd(outer, callers=8, workers=4, computes=[outer, inner])
    # One of `outer` in each of the workers, one of `inner` in all of them.
    assert result.computations == 5
    assert len(runtimes) == 4
    assert guard.engine.runtime() not in runtimes


async def test_plain_functions_are_called_in_threads_of_all_workers(guard: StampedeGuard) -> None:
    runtimes = set()

    @guard.locked_cache(ttl=300)
    def quality(project: int) -> int:
        flight = CURRENT.get()
        assert flight is not None
        runtimes.add(flight._runtime)
        return project

    result = await herd(quality, args=(7,), callers=20, workers=4)
    assert (result.computations, result.values) == (1, (7,) * 20)
    assert len(runtimes) == 1
    quality.set_mode("bypass")
    assert (await herd(quality, args=(7,), callers=20, workers=4)).computations >= 4
    assert len(runtimes) == 1 + 4


async def test_batches_methods_and_partials_are_counted(guard: StampedeGuard) -> None:
    @cached_many(guard=guard, ttl=300)
    async def products(ids: list[int]) -> dict[int, int]:
        await asyncio.sleep(0)
        return {id: id for id in ids}

    class Shop:
        def __cache_key__(self) -> str:
            return "shop"

        @locked_cache(guard=guard, ttl=300)
        async def sales(self, day: str) -> str:
            return day

    result = await herd(products, args=([1, 2],), callers=20, workers=4)
    assert (result.computations, result.values[0]) == (1, {1: 1, 2: 2})
    assert (await herd(Shop().sales, args=("mo",), callers=4, workers=2)).values == ("mo",) * 4
    assert (await herd(functools.partial(Shop().sales, "tu"), callers=4, workers=2)).computations == 1


async def test_a_function_that_another_decorator_wraps_is_counted(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> int:
        return project

    @functools.wraps(quality)
    async def logged(project: int) -> int:
        return await quality(project)

    assert (await herd(logged, args=(7,), callers=4, workers=2)).computations == 1


async def test_whatever_else_computes_is_counted_by_what_the_test_names(guard: StampedeGuard) -> None:
    query = AsyncMock(return_value=80)

    async def endpoint() -> int:
        return await guard.get_or_compute("quality", query)

    result = await herd(endpoint, callers=20, workers=4, computes=query)
    assert (result.computations, set(result.values)) == (1, {80})

    queries = 5

    async def compute() -> int:
        nonlocal queries
        queries += 1
        return queries

    asking = lambda: guard.get_or_compute("other", compute)  # noqa: E731 - a lambda is what a user writes
    assert (await herd(asking, callers=20, workers=4, computes=lambda: queries)).computations == 1
    assert (await herd(asking, callers=4, workers=2, computes=[query, lambda: queries])).computations == 0


async def test_errors_are_told_apart_from_values(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> int:
        await asyncio.sleep(0)
        raise LookupError("no such project")

    result = await herd(quality, args=(7,), callers=10, workers=2)
    assert (result.computations, result.values) == (1, ())
    assert len(result.errors) == 10
    assert {repr(error) for error in result.errors} == {"LookupError('no such project')"}


async def test_a_refresh_in_the_background_has_ended_and_counts(
    guard: StampedeGuard, clock: FakeClock
) -> None:
    @guard.locked_cache(ttl=300, stale_ttl=3600)
    async def quality(project: int) -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        return project

    await quality(7)
    clock.advance(301)
    result = await herd(quality, args=(7,), callers=20, workers=4)
    assert (result.computations, len(result.values)) == (1, 20)


async def test_the_default_guard_is_found_at_the_time_of_the_call(guard: StampedeGuard) -> None:
    @locked_cache(ttl=300)
    async def quality(project: int) -> int:
        return project

    before = defaults._default
    configure(guard)
    try:
        assert (await herd(quality, args=(7,), callers=4, workers=2)).computations == 1
    finally:
        configure(before)


@pytest.mark.parametrize("server", ["fakeredis", "valkey"])
async def test_workers_have_sessions_of_their_own_on_a_server(
    server: str, request: pytest.FixtureRequest, namespace: str
) -> None:
    if server == "fakeredis":
        guard = StampedeGuard(fakeredis.FakeAsyncRedis(), namespace=namespace)
    else:
        guard = StampedeGuard.from_url(request.getfixturevalue("valkey_url"), namespace=namespace)
    sessions = set()

    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> int:
        await asyncio.sleep(0.05)
        return project

    async def ask() -> int:
        sessions.add(guard.engine.runtime().session)
        return await quality(7)

    async with guard:
        result = await herd(ask, callers=20, workers=4, computes=quality)
    assert (result.computations, result.values) == (1, (7,) * 20)
    assert len(sessions) == 4


async def test_two_herds_at_once_each_count_what_happened_meanwhile_and_leave_nothing_behind(
    guard: StampedeGuard,
) -> None:
    @guard.locked_cache(ttl=300)
    async def quality(project: int) -> int:
        await asyncio.sleep(0)
        return project

    face = quality.set_mode.__self__  # type: ignore[attr-defined]
    before = face._function, Runtimes.here, Runtimes.current
    await asyncio.gather(*[herd(quality, args=(n,), callers=4, workers=2) for n in range(3)])
    assert (face._function, Runtimes.here, Runtimes.current) == before
    here = guard.engine.runtime()
    assert (await herd(quality, args=(9,), callers=4, workers=2)).computations == 1
    assert guard.engine.runtime() is here
    assert face._function is before[0]


async def test_callers_begin_with_the_context_of_the_test(guard: StampedeGuard) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")

    @guard.locked_cache(ttl=300, context=(tenant,))
    async def quality() -> str:
        return tenant.get()

    tenant.set("acme")
    assert (await herd(quality, callers=4, workers=2)).values == ("acme",) * 4


async def test_callers_that_are_never_answered_end_the_herd_and_are_counted(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def quality() -> None:
        await asyncio.Event().wait()

    limit(guard, Limits(drain_timeout=0))
    with pytest.raises(TimeoutError, match=r"4 of 4 callers have no answer after 0\.1 s"):
        await herd(quality, callers=4, workers=2, timeout=0.1)


async def test_a_herd_that_has_no_time_left_does_not_wait_for_what_still_runs(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl=300)
    async def quality() -> None:
        await asyncio.Event().wait()

    limit(guard, Limits(drain_timeout=600))
    with pytest.raises(TimeoutError, match="4 of 4 callers"):
        await soon(herd(quality, callers=4, workers=2, timeout=0.1))


async def test_a_caller_that_ends_with_a_cancellation_is_one_error_and_not_the_end_of_the_herd() -> None:
    async def cancelled_from_within() -> None:
        raise asyncio.CancelledError

    result = await herd(cancelled_from_within, callers=2, workers=1, computes=lambda: 0)
    assert [type(error) for error in result.errors] == [asyncio.CancelledError] * 2


async def test_a_herd_that_is_cancelled_leaves_nothing_behind(guard: StampedeGuard) -> None:
    gate = Gate()

    @guard.locked_cache(ttl=300)
    async def quality() -> None:
        await gate.hold()

    limit(guard, Limits(drain_timeout=600))
    asking = asyncio.create_task(herd(quality, callers=4, workers=2))
    await gate.arrival()
    asking.cancel()
    await soon(asyncio.wait({asking}))
    assert asking.cancelled() and ours() == set()
    assert Runtimes.here.__name__ == "here"


async def plain() -> int:
    return 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"callers": 0}, r"callers=0 is not allowed: .* a whole number of at least 1"),
        ({"workers": 1.5}, r"workers=1.5 is not allowed"),
        ({"callers": 3, "workers": 8}, "callers=3 are too few for workers=8"),
        ({"timeout": "5"}, "timeout='5' is not allowed"),
        ({"args": "7"}, r"give the positional arguments as a tuple, for example args=\(7,\)"),
        ({}, r"name what is, for example herd\(fn, computes=cached_function\)"),
        ({"computes": plain}, "computes=plain cannot be counted: give a function decorated with @locked_cache"),
        ({"computes": lambda: "many"}, "cannot be counted"),
        ({"computes": lambda needed: 1}, "cannot be counted"),
        ({"computes": []}, r"computes=\[\] counts nothing"),
        ({"processes": True, "computes": plain}, "computes= is for workers in this process"),
    ],
    ids=titled,
)  # fmt: skip
async def test_what_cannot_be_is_refused_with_what_to_write(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Misuse, match=says):
        await herd(plain, **given)


async def test_a_coroutine_instead_of_a_function_is_refused() -> None:
    coroutine: Any = plain()
    with pytest.raises(Misuse, match=r"write herd\(fn, args=\(7,\)\), not herd\(fn\(7\)\)"):
        await herd(coroutine)
    coroutine.close()
