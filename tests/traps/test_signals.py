"""A signal's handler may interrupt the library anywhere, and use it.

Python calls a handler between two instructions of the main thread, which stands still until the handler returns. Here a
trace function takes its place: it is called in the same way, and at each instruction that a test asks for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import stampede_guard
from stampede_guard import StampedeGuard, configure, locked_cache
from stampede_guard.core.entry import Record
from stampede_guard.engine.threads import locks
from stampede_guard.engine.threads.levels import enabled
from stampede_guard.engine.threads.locks import WAITING, PassableLock
from stampede_guard.engine.threads.portal import portal
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.support.listener import PATIENCE

HOME = str(Path(stampede_guard.__file__).parent)


class Interrupting:
    """Calls `handler` at every `stride`-th instruction of the library in this thread, and nowhere within itself."""

    def __init__(
        self, handler: Callable[[], object], *, stride: int, first: int = 0, most: int = 10**9
    ) -> None:
        self.calls = 0
        self._handler = handler
        self._stride = stride
        self._left = first
        self._most = most
        self._within = False

    def __enter__(self) -> Interrupting:
        self._before = sys.gettrace()
        # Python 3.12 sends instructions only if some frame asked for them before tracing began.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if self._within or not frame.f_code.co_filename.startswith(HOME):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and not self._within and self.calls < self._most:
            self._left -= 1
            if self._left < 0:
                self._left, self._within, self.calls = self._stride - 1, True, self.calls + 1
                try:
                    self._handler()
                finally:
                    self._within = False
        return self._step


def in_time(main: Callable[[], Any]) -> None:
    """In a thread that is given up when it waits for ever. It stands for the main thread."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            main()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the handler waits for what it has interrupted"
    if found:
        raise found[0]


def traffic(guard: StampedeGuard) -> Callable[[], Awaitable[None]]:
    """Something of everything."""
    number = 0

    @guard.locked_cache(name="shop.tagged", tags=("shop",), l1_ttl=60.0)
    async def tagged() -> int:
        return number

    @guard.cached_many(name="shop.many")
    async def many(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, number)

    async def compute() -> int:
        return number

    async def run() -> None:
        nonlocal number
        number += 1
        await guard.get_or_compute(f"report:{number}", compute, ttl=300)
        await guard.get_or_compute("report:1", compute, ttl=300, type=int)
        await guard.invalidate("report:1")
        await tagged()
        await guard.invalidate_tag("shop")
        await tagged.refresh()
        await many([1, 2])
        await guard.within(f"tenant-{number}").get_or_compute("report:1", compute)
        guard.mode = "on"

    return run


def handling(guard: StampedeGuard) -> Callable[[], None]:
    @guard.locked_cache(name="shop.plain")
    def plain() -> int:
        return 1

    def handler() -> None:
        plain()
        plain.invalidate()
        portal().call(guard.invalidate, "report:1")
        portal().call(guard.invalidate_tag, "shop")
        plain.refresh()

    return handler


@pytest.mark.parametrize("first", [0, 3_000, 6_011, 9_023, 12_031])
def test_a_handler_that_uses_the_cache_waits_for_nothing_that_it_interrupts(
    first: int,
) -> None:
    guard = StampedeGuard(MemoryStore(), limits=Limits(max_threads=2))
    handler = handling(guard)
    handler()

    async def main() -> None:
        run = traffic(guard)
        with Interrupting(handler, stride=31, first=first, most=100) as interrupting:
            await run()
            await run()
        assert interrupting.calls == 100

    in_time(lambda: asyncio.run(main()))
    guard.close()


def test_a_handler_during_the_very_first_call_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default guard, its part of the event loop and the portal are being made."""
    monkeypatch.setenv("STAMPEDE_GUARD_URL", "memory://")

    @locked_cache(ttl=300, name="shop.async")
    async def coroutine() -> int:
        return 1

    @locked_cache(ttl=300, name="shop.plain")
    def plain() -> int:
        return 2

    for first in range(0, 1200, 150):
        configure(None)

        async def main(first: int = first) -> None:
            with Interrupting(plain, stride=1, first=first, most=1):
                assert await coroutine() == 1

        in_time(lambda main=main: asyncio.run(main()))
    configure(None)


@pytest.mark.parametrize("offset", range(4))
def test_what_a_handler_has_invalidated_is_served_to_nobody_who_calls_later(
    offset: int,
) -> None:
    """Wherever it interrupts: also between the moments in which a step reads an entry and in which it changes it."""
    for first in range(offset * 30, 4000, 120):
        guard = StampedeGuard(MemoryStore())
        source = [1]

        async def main(first: int = first, guard: StampedeGuard = guard, source: list[int] = source) -> None:
            async def compute() -> int:
                return source[0]

            def handler() -> None:
                source[0] += 1
                assert portal().call(guard.invalidate, "report:1") == "done"

            with Interrupting(handler, stride=1, first=first, most=1):
                await guard.get_or_compute("report:1", compute, ttl=300, l1_ttl=60)
                await guard.get_or_compute("report:1", compute, ttl=300, l1_ttl=60)
                await guard.invalidate("report:1")
                await guard.get_or_compute("report:1", compute, ttl=300, l1_ttl=60)
            assert await guard.get_or_compute("report:1", compute, ttl=300, l1_ttl=60) == source[0]

        in_time(lambda main=main: asyncio.run(main()))
        guard.close()


@pytest.mark.parametrize("crowded", [False, True])
def test_a_handler_at_each_instruction_of_a_lock_leaves_it_as_it_was(crowded: bool) -> None:
    """`crowded`: another thread has the lock and waits for the portal, so the lock is passed."""
    lock, first, interrupted = PassableLock(), 0, True
    holds, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            ends.wait(PATIENCE)

    def handler() -> None:
        with lock:
            pass

    def main(first: int) -> int:
        with Interrupting(handler, stride=1, first=first, most=1) as interrupting:
            handler()
        return interrupting.calls

    holder = threading.Thread(target=hold)
    if crowded:
        holder.start()
        assert holds.wait(PATIENCE)
        WAITING[holder.ident or 0] = 1
    main(10**9)  # Python 3.13 sends the instructions of a function from its second call on
    try:
        while interrupted:
            interrupted = main(first) == 1
            first += 1
    finally:
        ends.set()
        if crowded:
            holder.join(PATIENCE)
            del WAITING[holder.ident or 0]
    assert first > 50
    assert lock._inside == {}
    assert lock._lock.acquire(blocking=False)


class Limit(Exception):
    """A soft time limit, which its signal's handler raises wherever the main thread is."""


def test_an_exception_at_any_instruction_of_a_lock_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "STUCK_LOOKS", 2)

    def limit() -> None:
        raise Limit

    def enter(lock: PassableLock) -> None:
        with lock:
            pass

    def main(lock: PassableLock, first: int) -> int:
        with contextlib.suppress(Limit), Interrupting(limit, stride=1, first=first, most=1) as interrupting:
            enter(lock)
        return interrupting.calls

    first, interrupted = 0, True
    while interrupted:
        lock = PassableLock()
        main(lock, 10**9)  # Python 3.13 sends the instructions of a function from its second call on
        interrupted = main(lock, first) == 1
        # One has to wait in vain, the next one no more.
        for _ in range(2):
            other = threading.Thread(target=enter, args=[lock], daemon=True)
            other.start()
            other.join(PATIENCE)
            assert not other.is_alive(), first
        enter(lock)
        first += 1
    assert first > 50


def test_who_was_thought_to_have_left_a_lock_takes_it_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. A thread stands still with the lock. 2. Another one has waited long enough, and all others get a new lock.
    3. The first one goes on and leaves, while a third one has the new lock."""
    monkeypatch.setattr(locks, "STUCK_LOOKS", 2)
    lock, slow, third = PassableLock(), threading.Barrier(2), threading.Barrier(2)

    def hold(until: threading.Barrier) -> None:
        with lock:
            until.wait(PATIENCE)
            until.wait(PATIENCE)

    threads = [threading.Thread(target=hold, args=[until], daemon=True) for until in (slow, third)]
    threads[0].start()
    slow.wait(PATIENCE)
    in_time(lambda: lock.__enter__() or lock.__exit__())
    threads[1].start()
    third.wait(PATIENCE)
    assert not lock._lock.acquire(blocking=False), "the third one has it"
    slow.wait(PATIENCE)
    threads[0].join(PATIENCE)
    assert not lock._lock.acquire(blocking=False)
    assert list(lock._inside) == [threads[1].ident]
    third.wait(PATIENCE)
    threads[1].join(PATIENCE)
    assert lock._lock.acquire(blocking=False)
    assert lock._inside == {}


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_a_handler_that_interrupts_logging_waits_for_no_lock_of_it(level: int) -> None:
    """The main thread has the lock that a logger takes when it is asked for a level for the first time."""
    logger = logging.getLogger("stampede_guard.flight")
    guard = StampedeGuard(MemoryStore())

    @guard.locked_cache(name="shop.plain")
    def plain(number: int) -> int:
        return number

    def interrupted() -> None:
        plain(1)
        with logging._lock:  # type: ignore[attr-defined]
            # As after any change of a level.
            logger.manager._clear_cache()  # type: ignore[attr-defined]
            assert plain(2) == 2

    in_time(interrupted)
    guard.close()
    assert not enabled(logger, level)
    assert enabled(logger, logging.ERROR)


def test_whether_a_logger_is_enabled_is_found_as_logging_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, parent = logging.getLogger("stampede_guard.flight"), logging.getLogger("stampede_guard")
    levels = (logging.NOTSET, logging.DEBUG, logging.INFO, logging.ERROR)
    for own, above, least, off in itertools.product(levels, levels, levels, (False, True)):
        monkeypatch.setattr(logger, "level", own)
        monkeypatch.setattr(parent, "level", above)
        monkeypatch.setattr(logger.manager, "_disable", least)
        monkeypatch.setattr(logger, "disabled", off)
        for asked in levels[1:]:
            logger.manager._clear_cache()  # type: ignore[attr-defined]
            assert enabled(logger, asked) == logger.isEnabledFor(asked), (own, above, least, off, asked)
    logger.manager._clear_cache()  # type: ignore[attr-defined]


def test_a_real_signal_during_plain_calls_and_coroutines() -> None:
    """In a process of its own, without coverage: that takes a lock in each thread, which a signal may interrupt."""
    program = "from tests.traps.test_signals import work_under_signals; work_under_signals()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).resolve().parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=6 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def work_under_signals() -> None:
    guard, handled = StampedeGuard(MemoryStore()), []
    handler, over = handling(guard), []

    def alarmed(*_: Any) -> None:
        handler()
        handled.append(1)
        # One at a time: a handler is interrupted by the next signal as anything else is. The last one sets no timer.
        if not over:
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    # asyncio makes its policy under a lock of its own, at its first use. A handler that comes then waits for ever.
    asyncio.run(asyncio.sleep(0))
    before = signal.signal(signal.SIGALRM, alarmed)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:

        async def main() -> None:
            run = traffic(guard)
            for _ in range(40):
                await run()

        asyncio.run(main())

        @guard.locked_cache(name="shop.other")
        def plain(number: int) -> int:
            return number

        for number in range(200):
            assert plain(number) == number
    finally:
        over.append(1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handled
    guard.close()


def test_threads_that_change_one_entry_lose_no_change() -> None:
    store, rounds, workers = MemoryStore(), 300, 4

    def count(name: str) -> int:
        def step(entry: Any, now_us: int, _: frozenset[str]) -> Any:
            counted = entry.record.last + 1 if entry.record is not None else 1
            return replace(entry, record=Record("epoch", counted, 0, now_us + 10**9)), counted, ()

        return int(store.change(name, step))

    def work() -> list[int]:
        return [count("entry") for _ in range(rounds)]

    with ThreadPoolExecutor(workers) as pool:
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            found = [pool.submit(work) for _ in range(workers)]
            counted = sorted(number for one in found for number in one.result(PATIENCE))
        finally:
            sys.setswitchinterval(before)
    assert counted == list(range(1, rounds * workers + 1))
