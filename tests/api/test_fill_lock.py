"""`fill_lock`: the first caller goes in alone, the others wait for it, and nobody is ever refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stampede_guard import fill_lock
from stampede_guard.api import filllock
from stampede_guard.errors import PolicyError
from tests.support.listener import PATIENCE

CALLERS = 16
LONG = 30.0


@pytest.fixture
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: object, **__: object) -> None:
        raise AssertionError("a caller began to wait")

    monkeypatch.setattr(filllock, "wait_for", wait)
    monkeypatch.setattr("asyncio.wait", wait)


@pytest.fixture(autouse=True)
def nobody_is_inside_afterwards() -> Iterator[None]:
    yield
    assert filllock._inside == {}


class Cache:
    def __init__(self) -> None:
        self.kept: dict[int, int] = {}
        self.computed = 0
        self.came = 0

    def known(self, day: int) -> int | None:
        self.came += 1
        return self.kept.get(day)


async def test_coroutines_compute_once() -> None:
    cache = Cache()

    async def ask(day: int) -> int:
        async with fill_lock("ask", day, wait=LONG):
            found = cache.known(day)
            if found is None:
                cache.computed += 1
                await asyncio.sleep(0)
                found = cache.kept[day] = day * 2
            return found

    assert await asyncio.gather(*[ask(day) for day in (1, 2) * CALLERS]) == [2, 4] * CALLERS
    assert cache.computed == 2


def test_threads_compute_once() -> None:
    cache, all_came = Cache(), threading.Event()
    coming = iter(range(CALLERS))

    def ask() -> int:
        if next(coming) == CALLERS - 1:
            all_came.set()
        with fill_lock("ask", wait=LONG):
            found = cache.known(1)
            if found is None:
                assert all_came.wait(LONG)
                cache.computed += 1
                found = cache.kept[1] = 2
            return found

    with ThreadPoolExecutor(CALLERS) as pool:
        assert [done.result() for done in [pool.submit(ask) for _ in range(CALLERS)]] == [2] * CALLERS
    assert cache.computed == 1


async def test_after_an_error_all_go_on_at_once_as_they_would_have_done() -> None:
    together = asyncio.Barrier(CALLERS - 1)
    failed: list[int] = []

    async def ask(number: int) -> int:
        async with fill_lock("ask", wait=LONG):
            if not failed:
                failed.append(number)
                await asyncio.sleep(0)
                raise ValueError("the backend is away")
            async with asyncio.timeout(LONG):
                await together.wait()
            return 2

    answers = await asyncio.gather(*[ask(number) for number in range(CALLERS)], return_exceptions=True)
    assert answers.count(2) == CALLERS - 1
    assert isinstance(answers[failed[0]], ValueError)


@pytest.mark.usefixtures("nobody_waits")
async def test_a_caller_does_not_wait_for_itself() -> None:
    async with fill_lock("ask", wait=LONG):
        first = filllock._inside[("ask",)]
        async with fill_lock("ask", wait=LONG):
            with fill_lock("ask", wait=LONG):
                assert filllock._inside == {("ask",): first}
        assert filllock._inside == {("ask",): first}


@pytest.mark.usefixtures("nobody_waits")
async def test_plain_code_never_stops_an_event_loop() -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with fill_lock("ask", wait=LONG):
            inside.set()
            await go.wait()

    task = asyncio.create_task(first())
    await inside.wait()
    with fill_lock("ask", wait=LONG):
        assert not task.done()
        go.set()
    await task


async def test_who_waited_in_vain_goes_on_and_later_callers_wait_for_it() -> None:
    go = asyncio.Event()
    inside = asyncio.Event()

    async def first() -> None:
        async with fill_lock("ask"):
            inside.set()
            await go.wait()

    hangs = asyncio.create_task(first())
    await inside.wait()
    async with fill_lock("ask", wait=0):
        place = filllock._inside[("ask",)].place
        assert place[1] is asyncio.current_task()
        go.set()
        await hangs
        assert filllock._inside[("ask",)].place is place


async def test_a_cancelled_caller_holds_up_nobody() -> None:
    inside = asyncio.Event()

    async def ask() -> None:
        async with fill_lock("ask", wait=LONG):
            inside.set()
            await asyncio.Event().wait()

    first = asyncio.create_task(ask())
    await inside.wait()
    inside.clear()
    waiting, second = asyncio.create_task(ask()), asyncio.create_task(ask())
    await asyncio.sleep(0)
    waiting.cancel()
    first.cancel()
    async with asyncio.timeout(LONG / 2):  # before its own wait is over
        await inside.wait()
    assert first.done() and waiting.done() and not second.done()
    second.cancel()
    await asyncio.gather(first, waiting, second, return_exceptions=True)


async def test_threads_and_coroutines_wait_for_each_other() -> None:
    inside, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    order: list[str] = []

    def first() -> None:
        with fill_lock("ask", wait=LONG):
            loop.call_soon_threadsafe(inside.set)
            assert go.wait(LONG)
            order.append("first")

    thread = asyncio.create_task(asyncio.to_thread(first))
    await inside.wait()
    loop.call_soon(go.set)
    async with fill_lock("ask", wait=LONG):
        order.append("second")
    await thread
    assert order == ["first", "second"]


def test_one_lock_for_a_whole_module_serves_all_its_threads() -> None:
    lock, cache, all_came = fill_lock("ask", wait=LONG), Cache(), threading.Event()
    coming = iter(range(CALLERS))

    def ask() -> int | None:
        if next(coming) == CALLERS - 1:
            all_came.set()
        with lock, lock:
            found = cache.known(1)
            if found is None:
                assert all_came.wait(LONG)
                cache.computed += 1
                found = cache.kept[1] = 2
            return found

    with ThreadPoolExecutor(CALLERS) as pool:
        for _ in range(2):
            coming = iter(range(CALLERS))
            assert [done.result() for done in [pool.submit(ask) for _ in range(CALLERS)]] == [2] * CALLERS
    assert cache.computed == 1


async def test_who_went_on_after_another_does_not_end_the_fill_of_a_third() -> None:
    lock = fill_lock("ask", wait=LONG)
    first_inside, first_goes = asyncio.Event(), asyncio.Event()
    second_inside, second_goes = asyncio.Event(), asyncio.Event()

    async def ask(inside: asyncio.Event, goes: asyncio.Event) -> None:
        async with lock:
            inside.set()
            await goes.wait()

    first = asyncio.create_task(ask(first_inside, first_goes))
    await first_inside.wait()
    second = asyncio.create_task(ask(second_inside, second_goes))
    await asyncio.sleep(0)
    first_goes.set()
    await first
    await second_inside.wait()
    async with lock:
        third = filllock._inside[("ask",)]
        second_goes.set()
        await second
        assert filllock._inside == {("ask",): third}


def test_a_generator_may_enter_in_one_thread_and_leave_in_another() -> None:
    lock = fill_lock("ask", wait=LONG)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(lock.__enter__).result()
        other.submit(lock.__exit__, None, None, None).result()
    assert filllock._inside == {}


@pytest.mark.parametrize("leaves_in", ["a third thread", "the thread of the one that came in between"])
@pytest.mark.parametrize("stacked", [False, True])
def test_each_gives_back_its_own_place_when_a_generator_changes_its_thread(
    leaves_in: str, stacked: bool
) -> None:
    lock = fill_lock("ask", wait=0)

    def rows() -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            if stacked:
                stack.enter_context(lock)
                yield 1
            else:
                with lock:
                    yield 1

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two, ThreadPoolExecutor(1) as three:
        found = rows()
        one.submit(next, found).result()
        first = filllock._inside[("ask",)]
        between = rows()
        two.submit(next, between).result()
        second = filllock._inside[("ask",)]
        assert second is not first
        (three if leaves_in == "a third thread" else two).submit(next, found, None).result()
        assert (first.gone.done(), second.gone.done()) == (True, False)
        assert filllock._inside == {("ask",): second}
        two.submit(next, between, None).result()
    assert second.gone.done()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_waits_for_nobody() -> None:
    with fill_lock("ask"):
        child = os.fork()
        if child == 0:
            os._exit(len(filllock._inside))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_parts_that_cannot_be_hashed_are_known_by_their_text() -> None:
    with fill_lock("ask", [1]):
        assert list(filllock._inside) == [("ask", "[1]")]


@pytest.mark.parametrize("wait", [-1, float("inf"), float("nan"), True, "soon", None])
def test_a_wait_must_be_a_duration(wait: object) -> None:
    with pytest.raises(PolicyError, match="wait"):
        fill_lock("ask", wait=wait)  # type: ignore[arg-type]


def test_a_generator_that_the_collector_ends_in_a_step_of_another_caller_waits_for_nothing() -> None:
    """The collector may run within any step, and in its thread: also in one that changes who is inside."""

    def fills() -> Iterator[None]:
        with fill_lock("kept by a generator"):
            yield

    def work() -> None:
        running = fills()
        next(running)
        with filllock._lock:
            running.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert filllock._inside == {}
