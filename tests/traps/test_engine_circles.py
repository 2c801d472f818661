"""Computations that wait for each other in a circle: a named error at once, and never a wait for `wait_timeout`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from stampede_guard import Policy, StampedeGuard
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import soon, until
from tests.support.inside import close_here

FOR_EVER = Policy(ttl=60.0, wait_timeout=3600.0, compute_timeout=3600.0, fallback_limit=0)


@pytest.fixture
async def guard() -> AsyncIterator[StampedeGuard]:
    async with StampedeGuard(MemoryStore(), policy=FOR_EVER, limits=Limits(drain_timeout=0.1)) as guard:
        yield guard


class Meeting:
    """Computations wait here until all have begun, each by a caller of its own."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._all = asyncio.Event()

    async def come(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._all.set()
        await self._all.wait()


async def all_are_told(*callers: Awaitable[Any]) -> None:
    for outcome in await soon(asyncio.gather(*callers, return_exceptions=True)):
        assert isinstance(outcome, Exception) and "would wait for itself" in str(outcome), outcome


@pytest.mark.parametrize("length", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["cached", "many", "bound", "refresh", "keyed", "tags"])
async def test_a_circle_of_any_length_is_found_at_once(guard: StampedeGuard, length: int, kind: str) -> None:
    meeting, calls = Meeting(length), []

    def link(number: int) -> Callable[[], Awaitable[Any]]:
        async def compute() -> Any:
            await meeting.come()
            return await calls[(number + 1) % length]()

        if kind == "many":

            async def many(ids: list[int]) -> dict[int, Any]:
                return {id: await compute() for id in ids}

            call_many = guard.cached_many(name=f"f{number}")(many)
            return lambda: call_many([1, 2])
        if kind == "bound":

            async def bound(request: object) -> Any:
                return await compute()

            call_bound = guard.locked_cache(name=f"f{number}", unkeyed=["request"])(bound)
            return lambda: call_bound(object())
        if kind == "keyed":
            return lambda: guard.get_or_compute(f"f{number}", compute)
        if kind == "tags":
            return lambda: guard.get_or_compute(f"f{number}", compute, tags=["t"])
        call: Any = guard.locked_cache(name=f"f{number}")(compute)
        return call.refresh if kind == "refresh" else call  # type: ignore[no-any-return]

    calls += [link(number) for number in range(length)]
    await all_are_told(*(call() for call in calls))


async def test_a_circle_of_blocks_is_found_at_once(guard: StampedeGuard) -> None:
    meeting = Meeting(2)

    async def block(mine: str, other: str) -> Any:
        async with guard.single(mine) as entry:
            if entry.missing:
                await meeting.come()
                async with guard.single(other) as inner:
                    if inner.missing:
                        await inner.set(1)
                await entry.set(2)
        return entry.value

    await all_are_told(block("a", "b"), block("b", "a"))


async def test_a_wait_that_is_given_up_does_not_hide_another_one_for_the_same_flight(
    guard: StampedeGuard,
) -> None:
    go_on = asyncio.Event()

    async def a() -> Any:
        given_up, goes_on = asyncio.ensure_future(call_b()), asyncio.ensure_future(call_b())
        await until(lambda: len(guard.engine.runtime().flights) == 2)
        given_up.cancel()
        await asyncio.wait({given_up})
        go_on.set()
        return await goes_on

    async def b() -> Any:
        await go_on.wait()
        return await call_a()

    call_a, call_b = guard.locked_cache(name="a")(a), guard.locked_cache(name="b")(b)
    await all_are_told(call_a())


async def test_a_circle_through_a_flight_that_callers_do_not_find_is_found_at_once(
    guard: StampedeGuard,
) -> None:
    async def a() -> Any:
        (flight,) = guard.engine.runtime().flights.values()
        # As an early refresh is, when a caller's read fails meanwhile.
        guard.engine.runtime().flights.set_apart(flight)
        return await call_b()

    async def b() -> Any:
        return await call_a()

    call_a, call_b = guard.locked_cache(name="a")(a), guard.locked_cache(name="b")(b)
    await all_are_told(call_a())


async def test_a_circle_of_plain_functions_is_found_at_once(guard: StampedeGuard) -> None:
    both = threading.Barrier(2)

    def first() -> Any:
        both.wait(60)
        return call_second()

    def second() -> Any:
        both.wait(60)
        return call_first()

    call_first, call_second = (
        guard.locked_cache(name="first")(first),
        guard.locked_cache(name="second")(second),
    )
    await all_are_told(asyncio.to_thread(call_first), asyncio.to_thread(call_second))


async def test_a_circle_over_several_event_loops_is_found_at_once(guard: StampedeGuard) -> None:
    """The coroutine's flight in this loop has the lease; that in the third loop would wait for it."""

    def plain() -> Any:
        async def elsewhere() -> Any:
            try:
                return await call_coroutine()
            finally:
                await close_here(guard)

        return asyncio.run(elsewhere())

    async def coroutine() -> Any:
        return await asyncio.to_thread(call_plain)

    call_plain, call_coroutine = (
        guard.locked_cache(name="plain")(plain),
        guard.locked_cache(name="coroutine")(coroutine),
    )
    await all_are_told(call_coroutine())


async def test_what_is_no_circle_is_no_error(guard: StampedeGuard) -> None:
    async def leaf(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def twice(number: int) -> int:
        return sum(await asyncio.gather(call_leaf(number), call_leaf(number), call_leaf(number + 1)))

    async def ring(number: int) -> int:
        return 1 if not number else await call_ring(number - 1) + 1

    call_leaf, call_twice, call_ring = (
        guard.locked_cache(name="leaf")(leaf),
        guard.locked_cache(name="twice")(twice),
        guard.locked_cache(name="ring")(ring),
    )
    assert await soon(asyncio.gather(call_twice(1), call_twice(1), call_twice(2))) == [4, 4, 7]
    assert await soon(call_ring(20)) == 21
