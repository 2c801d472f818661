"""The engine under faults, once more: sequences over several event loops, and stores that do what none should."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.engine.away.pending import AT_ONCE
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.fields import fields_of_guard
from tests.support.gate import Gate, soon, until
from tests.support.inside import pending_of, runtimes_of, unsettled_of

while_decoding: list[Callable[[], object]] = []
"""Called once, by the next value that is decoded."""


class Report:
    """Its bytes take a while to be read."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state)
        if while_decoding:
            while_decoding.pop()()


def guard_on(store: Any, **fields: Any) -> StampedeGuard:
    return StampedeGuard(store, namespace="review", **fields_of_guard(ttl=300.0, **fields))


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._run()

    def _run(self) -> None:
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return await function()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(30)

    def stop(self) -> None:
        """It runs no more, and is not closed."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)

    def close(self) -> None:
        """As `asyncio.run` does at its end."""
        if not self._thread.is_alive():
            self._run()
        self.call(_cancel_all)
        self.stop()
        self.loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- copies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["invalidate", "refresh"])
async def test_a_copy_is_not_kept_of_what_another_event_loop_outdates_while_it_is_decoded(how: str) -> None:
    store, numbers = FaultyStore(), iter(range(1, 10))
    elsewhere = Loop()
    async with guard_on(store, l1_ttl=300.0) as guard:

        @guard.locked_cache(name="report", pickle=True)
        async def report() -> Report:
            return Report(next(numbers))

        guard.engine.runtime().session.hears_changes("review:x")
        assert (await report()).number == 1
        assert (await report()).number == 1
        l1 = guard.engine.runtime().l1
        assert len(l1) == 1, "copies are kept"
        l1.drop(report.key())
        while_decoding.append(lambda: elsewhere.call(getattr(report, how)))
        assert (await report()).number == 1, "it came before"
        assert not while_decoding
        # In this very turn of the event loop.
        assert (await report()).number == 2
    elsewhere.call(guard.aclose)
    elsewhere.close()


# --- what waits in an event loop that is gone ------------------------------------------------------------


async def test_what_waits_in_an_event_loop_that_ended_without_closing_the_guard_is_applied_by_another() -> (
    None
):
    store, source = FaultyStore(), [1]
    elsewhere = Loop()
    async with guard_on(store) as guard, guard_on(store) as other:

        async def compute() -> int:
            return source[0]

        ask = lambda: guard.get_or_compute("k", compute)  # noqa: E731
        assert await ask() == 1
        store.fail()
        source[0] = 2
        assert elsewhere.call(lambda: guard.invalidate("k")) == "pending"
        elsewhere.close()
        store.recover()
        assert await soon(ask()) == 2
        await until(lambda: not guard.engine.runtime().away)
        assert await soon(other.get_or_compute("k", compute)) == 2
        assert await soon(ask()) == 2


async def test_who_inherits_what_waits_is_an_event_loop_that_runs() -> None:
    store, source = FaultyStore(), [1]
    stopped, closing = Loop(), Loop()

    async def compute() -> int:
        return source[0]

    guard = guard_on(store)
    ask = lambda: guard.get_or_compute("k", compute)  # noqa: E731
    assert stopped.call(ask) == 1
    stopped.stop()
    assert await ask() == 1
    store.fail()
    assert closing.call(lambda: guard.invalidate("k")) == "pending"
    closing.call(guard.aclose)
    closing.close()
    store.recover()
    await until(lambda: not guard.engine.runtime().away)
    await guard.aclose()
    stopped.close()


async def test_who_closes_before_it_has_inherited_hands_on_what_waits() -> None:
    store, source = FaultyStore(), [1]
    first, second = Loop(), Loop()

    async def compute() -> int:
        return source[0]

    guard = guard_on(store)
    ask = lambda: guard.get_or_compute("k", compute)  # noqa: E731
    for loop in (first, second):
        assert loop.call(ask) == 1
    await ask()
    store.fail()
    assert await guard.invalidate("k") == "pending"
    heir = runtimes_of(guard).get(first.loop)
    assert heir is not None
    # It is told so, and its part is closed before it gets there.
    pending_of(heir).closing = True
    await guard.aclose()
    store.recover()
    part = runtimes_of(guard).get(second.loop)
    assert part is not None
    await until(lambda: not part.unsettled.pending)
    pending_of(heir).closing = False
    for loop in (first, second):
        loop.call(guard.aclose)
        loop.close()


@pytest.mark.parametrize("what", ["entry", "tag"])
@pytest.mark.parametrize("with_heir", [False, True], ids=["alone", "with another event loop"])
async def test_what_turns_out_pending_after_the_guard_was_closed_does_not_wait_for_ever(
    what: str, with_heir: bool
) -> None:
    store, source, heir = FaultyStore(), [1], Loop()
    guard = guard_on(store)

    async def compute() -> int:
        return source[0]

    ask = lambda of: of.get_or_compute("k", compute, tags=["t"])  # noqa: E731
    async with guard_on(store) as other:
        assert await ask(guard) == 1
        if with_heir:
            assert heir.call(lambda: ask(guard)) == 1
        session, gate = guard.engine.runtime().session, Gate()

        async def lost(*_: object, **__: object) -> object:
            await gate.hold()
            raise StoreUnavailable("no answer")

        session.invalidate = session.drop_tag = lost  # type: ignore[method-assign,assignment]
        source[0] = 2
        told = asyncio.ensure_future(guard.invalidate("k") if what == "entry" else guard.invalidate_tag("t"))
        await gate.arrival()
        await guard.aclose()
        gate.open()
        assert await soon(told) == "pending"
        await until(lambda: not unsettled_of(guard).names)
        if with_heir:
            assert await soon(ask(other)) == 2, "another event loop of the guard has applied it"
            heir.call(guard.aclose)
        await guard.aclose()
    heir.close()


async def test_a_batch_with_leases_needs_no_turn_of_those_that_compute_without_the_store() -> None:
    store = FaultyStore()
    async with guard_on(store, max_local_computations=1) as guard:
        session, gate = guard.engine.runtime().session, Gate()

        async def refused(*_: object, **__: object) -> object:
            raise StoreRefused("NOREPLICAS", may_pass=True)

        async def held() -> int:
            await gate.hold()
            return 1

        @guard.cached_many(name="many")
        async def many(ids: list[int]) -> dict[int, int]:
            return dict.fromkeys(ids, 2)

        session.invalidate = refused  # type: ignore[method-assign,assignment]
        assert await guard.invalidate("k", type=int) == "pending"
        alone = asyncio.ensure_future(guard.get_or_compute("k", held, type=int))
        await gate.arrival()
        assert await soon(many([1, 2])) == {1: 2, 2: 2}
        gate.open()
        assert await soon(alone) == 1


# --- stores that raise what they should not ----------------------------------------------------------------


async def test_an_invalidation_that_a_store_answers_with_a_fault_of_its_own_is_tried_again() -> None:
    store = FaultyStore()
    async with guard_on(store) as guard:
        session = guard.engine.runtime().session
        invalidate, answers = session.invalidate, [StoreUnavailable("no answer"), StoreUnavailable("none")]

        async def faulty(*args: Any, **kwargs: Any) -> Any:
            if answers:
                raise answers.pop(0)
            return await invalidate(*args, **kwargs)

        session.invalidate = faulty  # type: ignore[method-assign]
        answers.append(ValueError("a fault"))  # type: ignore[arg-type]
        assert await guard.invalidate("k", type=int) == "pending"
        await until(lambda: not guard.engine.runtime().away)


async def test_many_that_a_store_answers_with_a_fault_of_its_own_hold_up_no_other() -> None:
    store = FaultyStore()
    async with guard_on(store) as guard:
        session = guard.engine.runtime().session
        invalidate = session.invalidate

        async def faulty(name: str, **kwargs: Any) -> Any:
            if "good" in name:
                return await invalidate(name, **kwargs)
            raise ValueError("a fault")

        store.fail()
        keys = [f"bad{number}" for number in range(AT_ONCE)] + ["good"]
        for key in keys:
            assert await guard.invalidate(key, type=int) == "pending"
        session.invalidate = faulty  # type: ignore[method-assign,assignment]
        store.recover()
        await until(lambda: not any("good" in name for name in unsettled_of(guard).pending))


async def test_two_values_that_a_store_does_not_keep_at_once_do_not_hide_each_other() -> None:
    async with guard_on(MemoryStore()) as guard:
        runtime = guard.engine.runtime()
        full = StoreRefused("OOM", may_pass=True, kind="full")
        runtime.not_kept("review:a", full)
        runtime.not_kept("review:b", full)
        runtime.published("review:a", value=True)
        runtime.published("review:b", value=True)
        assert guard.health().status == "full"
        runtime.published("review:a", value=True)
        assert guard.health().status == "ok"
