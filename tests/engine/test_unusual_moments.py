"""Answers, time-outs and steps of computations that come at unusual moments. Each was found by `tests/engine/fuzz`.

In virtual time: nothing here waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.api.results import MISSING
from stampede_guard.errors import ComputeTimeout, StoreRefused, StoreUnavailable
from stampede_guard.events import Event, Hook, Stored
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.leases.simulation.loop import VirtualLoop

KEY = "report:7"


class Moments:
    """A fleet in the virtual time of the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.store = MemoryStore(clock=self._loop.time)
        self._began = self._loop.time()
        self.made: list[StampedeGuard] = []

    def guard(self, *hooks: Hook) -> StampedeGuard:
        guard = StampedeGuard(self.store, namespace="t", hooks=hooks)
        self.made.append(guard)
        return guard

    async def until(self, seconds: float) -> None:
        """From the beginning."""
        await asyncio.sleep(self._began + seconds - self._loop.time())

    def ask(self, guard: StampedeGuard, value: str, seconds: float, **fields: Any) -> asyncio.Task[str]:
        return asyncio.create_task(guard.get_or_compute(KEY, computes(value, seconds), **fields))

    def refresh(self, guard: StampedeGuard, value: str, seconds: float, **fields: Any) -> asyncio.Task[str]:
        return asyncio.create_task(guard.refresh(KEY, computes(value, seconds), **fields))


def computes(value: str, seconds: float) -> Callable[[], Awaitable[str]]:
    async def compute() -> str:
        await asyncio.sleep(seconds)
        return value

    return compute


def virtually(main: Callable[[Moments], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()

    async def run() -> None:
        fleet = Moments()
        await main(fleet)
        for guard in fleet.made:
            await guard.aclose()

    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(run())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def delayed(session: Any, what: str, *seconds: float, answers: bool = False) -> None:
    """Let the first calls of this command take so long before they are carried out, or their `answers`."""
    command, delays = getattr(session, what), iter(seconds)

    async def late(*args: Any, **fields: Any) -> Any:
        await asyncio.sleep(0.0 if answers else next(delays, 0.0))
        answer = await command(*args, **fields)
        await asyncio.sleep(next(delays, 0.0) if answers else 0.0)
        return answer

    setattr(session, what, late)


def test_who_takes_over_a_computation_has_the_whole_time() -> None:
    async def main(fleet: Moments) -> None:
        guard, fields = fleet.guard(), {"request_bound": True, "compute_timeout": 1.0}
        leaves = fleet.ask(guard, "unused", 10.0, **fields)
        await fleet.until(0.8)
        stays = fleet.ask(guard, "taken over", 0.9, **fields)
        await fleet.until(0.9)
        leaves.cancel()
        assert await stays == "taken over"

    virtually(main)


def test_who_was_denied_by_a_fallback_that_began_before_an_invalidation_waits_on() -> None:
    async def main(fleet: Moments) -> None:
        other, guard = fleet.guard(), fleet.guard()
        holding = fleet.ask(other, "late", 2.0)
        await fleet.until(0.1)
        fields = {"wait_timeout": 0.1, "fallback_timeout": 30.0}
        first = fleet.ask(guard, "before", 1.0, **fields)
        await fleet.until(0.5)
        assert await guard.invalidate(KEY) == "done"
        second = fleet.ask(guard, "after", 0.5, **fields)
        assert await first == "before"
        assert await second == "after"
        await holding

    virtually(main)


def test_a_refresh_that_a_fallback_answers_does_not_invalidate_what_that_has_stored() -> None:
    async def main(fleet: Moments) -> None:
        guard = fleet.guard()
        session = guard.engine.runtime().session
        # Both calls read the store. So the refresh joins the other one's flight.
        delayed(session, "read", 0.1, 0.1)
        delayed(session, "publish", 0.6, 2.0)
        slow = fleet.ask(guard, "slow", 1.0)
        refreshed = fleet.refresh(guard, "refreshed", 0.2, wait_timeout=0.3)
        assert await refreshed == "refreshed"
        assert await guard.get(KEY) == "refreshed"
        await slow

    virtually(main)


def test_a_refresh_by_a_fallback_that_was_not_stored_outdates_the_old_value() -> None:
    async def main(fleet: Moments) -> None:
        other, guard = fleet.guard(), fleet.guard()
        assert await fleet.ask(guard, "before", 0.0) == "before"
        holding = fleet.refresh(other, "late", 5.0)
        await fleet.until(0.1)

        async def lost(*args: Any, **fields: Any) -> Any:
            raise StoreUnavailable("the connection was reset")

        session: Any = guard.engine.runtime().session
        session.publish, publish = lost, session.publish
        assert await fleet.refresh(guard, "after", 0.1, wait_timeout=0.1) == "after"
        session.publish = publish
        assert await fleet.ask(guard, "again", 0.1, wait_timeout=0.1, fallback_limit=2) == "again"
        await holding

    virtually(main)


def test_a_value_from_before_a_refresh_may_arrive_after_the_store_has_answered_its_flight() -> None:
    async def main(fleet: Moments) -> None:
        other, guard = fleet.guard(), fleet.guard()
        session = guard.engine.runtime().session
        delayed(session, "acquire", 0.2)
        delayed(session, "fallback", 0.3, answers=True)
        earlier = fleet.ask(other, "before", 0.15)
        await fleet.until(0.1)
        refreshed = fleet.refresh(guard, "after", 3.0, wait_timeout=0.1, fallback_timeout=5.0)
        assert await refreshed == "after"
        assert await earlier == "before"

    virtually(main)


def test_a_fallbacks_value_is_what_its_process_saw_last() -> None:
    async def main(fleet: Moments) -> None:
        guard = fleet.guard()
        assert await fleet.ask(guard, "before", 0.0) == "before"
        session: Any = guard.engine.runtime().session
        delayed(session, "acquire", 3.0)
        assert await fleet.refresh(guard, "after", 0.1, wait_timeout=0.1) == "after"

        async def refused(*args: Any, **fields: Any) -> Any:
            raise StoreRefused("the password has changed")

        session.read = refused
        assert await fleet.ask(guard, "unused", 0.0) == "after"

    virtually(main)


def test_a_fallbacks_value_that_was_refused_does_not_count_as_stored() -> None:
    async def main(fleet: Moments) -> None:
        told: list[Event] = []
        other, guard = fleet.guard(), fleet.guard(told.append)
        holding = fleet.ask(other, "late", 2.0)
        await fleet.until(0.1)
        first = fleet.ask(guard, "before", 1.0, wait_timeout=0.1)
        await fleet.until(0.5)
        assert await other.invalidate(KEY) == "done"
        assert await first == "before"
        assert [event for event in told if isinstance(event, Stored)] == []
        await holding

    virtually(main)


def test_whose_value_is_on_its_way_to_the_store_does_not_compute_again() -> None:
    async def main(fleet: Moments) -> None:
        guard, runs = fleet.guard(), 0
        delayed(guard.engine.runtime().session, "publish", 0.4)

        async def compute() -> int:
            nonlocal runs
            runs += 1
            await asyncio.sleep(0.4)
            return runs

        assert await guard.get_or_compute(KEY, compute, wait_timeout=0.5) == 1
        assert runs == 1

    virtually(main)


def test_the_value_of_a_block_is_not_stored_after_an_invalidation_by_a_fallback_that_finds_it_made() -> None:
    async def main(fleet: Moments) -> None:
        other, guard = fleet.guard(), fleet.guard()
        delayed(guard.engine.runtime().session, "publish", 0.4)
        async with guard.single(KEY, wait_timeout=0.5) as entry:
            assert entry.missing
            await fleet.until(0.2)
            assert await other.invalidate(KEY) == "done"
            await fleet.until(0.4)
            await entry.set("before")
        assert await other.get(KEY) is MISSING

    virtually(main)


def test_a_handed_over_computation_of_an_uncacheable_key_does_not_outlive_its_place() -> None:
    async def main(fleet: Moments) -> None:
        running: list[str] = []
        fields: dict[str, Any] = {
            "request_bound": True,
            "should_cache": lambda _: False,
            "uncacheable_limit": 1,
            "compute_timeout": 1.0,
            "lease_ttl": 0.9,
            "error_ttl": 0.0,
        }

        def ask(guard: StampedeGuard, name: str, seconds: float) -> asyncio.Task[str]:
            async def compute() -> str:
                running.append(name)
                assert len(running) == 1, running
                try:
                    await asyncio.sleep(seconds)
                finally:
                    running.remove(name)
                return name

            return asyncio.create_task(guard.get_or_compute(KEY, compute, **fields))

        guard, other = fleet.guard(), fleet.guard()
        assert await ask(guard, "marks the key as uncacheable", 0.0)
        first, second = ask(guard, "first", 0.95), ask(guard, "second", 0.95)
        await fleet.until(0.1)
        third, elsewhere = ask(guard, "third", 0.95), ask(other, "elsewhere", 0.95)
        await fleet.until(0.9)
        first.cancel()
        await fleet.until(1.8)
        second.cancel()
        served = await asyncio.gather(third, elsewhere)
        assert served == ["third", "elsewhere"]

    virtually(main)


@pytest.mark.parametrize("under_way", [0.0, 0.5])
def test_a_fallback_that_ends_with_its_request_leaves_its_place_to_others(under_way: float) -> None:
    async def main(fleet: Moments) -> None:
        holder, left, guard = fleet.guard(), fleet.guard(), fleet.guard()
        session: Any = left.engine.runtime().session
        command = session.fallback

        async def travel(*args: Any, **fields: Any) -> Any:
            await asyncio.sleep(under_way)
            return await command(*args, **fields)

        async def send(*args: Any, **fields: Any) -> Any:
            # A command that was sent is carried out, also if its caller has left.
            return await asyncio.shield(asyncio.create_task(travel(*args, **fields)))

        session.fallback = send
        holding = fleet.ask(holder, "late", 5.0)
        await fleet.until(0.1)
        leaves = fleet.ask(left, "unused", 3.0, wait_timeout=0.1, request_bound=True)
        await fleet.until(0.5)
        leaves.cancel()
        await fleet.until(1.0)
        assert await fleet.ask(guard, "by a fallback", 0.1, wait_timeout=0.1) == "by a fallback"
        await holding

    virtually(main)


@pytest.mark.parametrize("bound", [False, True])
def test_whose_call_begins_to_be_computed_during_its_last_look_at_the_store_waits_for_it(bound: bool) -> None:
    async def main(fleet: Moments) -> None:
        guard = fleet.guard()
        session = guard.engine.runtime().session
        delayed(session, "acquire", 0.2)
        delayed(session, "read", 0.0, 0.3)
        fields = {"wait_timeout": 0.1, "fallback_limit": 0, "request_bound": bound}
        assert await fleet.ask(guard, "its own", 1.0, **fields) == "its own"

    virtually(main)


def test_whoever_waits_for_a_turn_without_the_store_asks_the_store_as_soon_as_that_is_back() -> None:
    async def main(fleet: Moments) -> None:
        store = FaultyStore(clock=asyncio.get_running_loop().time)
        guard = StampedeGuard(store, namespace="t", limits=Limits(max_local_computations=1))
        fleet.made.append(guard)
        store.fail()
        takes_the_turn = fleet.ask(guard, "without the store", 20.0)
        await fleet.until(1.0)
        waits = asyncio.create_task(guard.get_or_compute("report:8", computes("with a lease", 0.1)))
        await fleet.until(2.0)
        store.recover()
        assert await waits == "with a lease"
        assert not takes_the_turn.done()
        assert await takes_the_turn == "without the store"

    virtually(main)


def test_a_second_computation_of_a_call_begins_with_the_arguments_of_the_call() -> None:
    async def main(fleet: Moments) -> None:
        seen: list[list[str]] = []

        async def load(filters: dict[str, int]) -> str:
            seen.append(sorted(filters))
            filters["limit"] = 10
            await asyncio.sleep(20)
            return "value"

        # 1. The lease of the first process lapses. 2. Until then, the caller in the second one has begun a fallback. 3.
        # Its flight gets the lease, and computes the same call.
        holder, guard = fleet.guard(), fleet.guard()
        delayed(holder.engine.runtime().session, "renew", 3600)
        fields: dict[str, Any] = {"ttl": 60, "wait_timeout": 1, "fallback_timeout": 60}
        first, second = (
            asyncio.create_task(made.locked_cache(name="load", **fields)(load)({"page": 1}))
            for made in (holder, guard)
        )
        assert await second == "value"
        await first
        assert seen == [["page"]] * 3

    virtually(main)


class Outage:
    """The store is away, the one turn without it is taken for 20 seconds, and the computation of `names` wait."""

    def __init__(self, fleet: Moments, *names: str) -> None:
        self.store = FaultyStore(clock=asyncio.get_running_loop().time)
        self.guard = StampedeGuard(self.store, namespace="t", limits=Limits(max_local_computations=1))
        fleet.made.append(self.guard)
        self.most = self._run = 0
        self.store.fail()
        self.takes_the_turn = asyncio.create_task(self.guard.get_or_compute(KEY, self._taking(20.0)))
        self.waiting = [
            asyncio.create_task(self.guard.get_or_compute(name, self._taking(0.1))) for name in names
        ]

    def _taking(self, seconds: float) -> Callable[[], Awaitable[str]]:
        async def compute() -> str:
            self._run += 1
            self.most = max(self.most, self._run)
            await asyncio.sleep(seconds)
            self._run -= 1
            return "computed"

        return compute


def test_whoever_waits_for_a_turn_asks_the_store_as_soon_as_a_pending_invalidation_is_applied() -> None:
    async def main(fleet: Moments) -> None:
        outage = Outage(fleet, "report:8")
        await fleet.until(1.0)
        assert await outage.guard.invalidate("report:8") == "pending"
        outage.store.recover()
        assert await outage.waiting[0] == "computed"
        assert not outage.takes_the_turn.done()
        await outage.takes_the_turn

    virtually(main)


def test_a_store_that_is_back_for_a_moment_gives_nobody_a_turn() -> None:
    async def main(fleet: Moments) -> None:
        outage = Outage(fleet, *map(str, range(5)))
        await fleet.until(1.0)
        outage.store.recover()
        outage.store.fail()
        await asyncio.gather(outage.takes_the_turn, *outage.waiting)
        assert outage.most == 1

    virtually(main)


def test_a_batch_that_waits_for_a_turn_asks_the_store_as_soon_as_it_is_back() -> None:
    async def main(fleet: Moments) -> None:
        outage, computed = Outage(fleet), list[list[int]]()
        other = StampedeGuard(outage.store, namespace="t")
        fleet.made.append(other)

        def cached(guard: StampedeGuard) -> Any:
            @guard.cached_many(ttl=60, name="numbers")
            async def numbers(ids: list[int]) -> dict[int, int]:
                computed.append(ids)
                await asyncio.sleep(0.1)
                return dict.fromkeys(ids, 7)

            return numbers

        numbers = cached(outage.guard)
        leaves = asyncio.create_task(numbers([0, 1]))
        waiting = asyncio.create_task(numbers([1, 2, 3]))
        await fleet.until(1.0)
        leaves.cancel()
        outage.store.recover()
        # Another process computes one of the ids first.
        assert await cached(other)([2]) == {2: 7}
        assert await waiting == {1: 7, 2: 7, 3: 7}
        assert not outage.takes_the_turn.done()
        assert sorted(id for ids in computed for id in ids) == [0, 1, 2, 3]
        await outage.takes_the_turn

    virtually(main)


def test_the_time_in_which_a_batch_waits_for_a_turn_is_not_taken_from_its_computation() -> None:
    async def main(fleet: Moments) -> None:
        outage = Outage(fleet)

        @outage.guard.cached_many(ttl=60, compute_timeout=3.0)
        async def numbers(ids: list[int]) -> dict[int, int]:
            await asyncio.sleep(2.5)
            return dict.fromkeys(ids, 7)

        await fleet.until(1.0)
        assert await numbers([1, 2]) == {1: 7, 2: 7}
        assert outage.takes_the_turn.done()

        @outage.guard.cached_many(ttl=60, compute_timeout=3.0)
        async def hanging(ids: list[int]) -> dict[int, int]:
            await asyncio.sleep(3600)
            return {}

        with pytest.raises(ComputeTimeout):
            await hanging([1])

    virtually(main)
