"""`fill_lock`: several callers of one process miss at once. One fills the cache, and the others wait for it.

    report = cache.get(key)
    if report is None:
        with fill_lock("report", key):      # `async with` in a coroutine
            report = cache.get(key)         # the second look: the first caller has stored it
            if report is None:
                report = compute()
                cache.set(key, report, 300)

It is for code that must keep its own cache, key and format. It needs no store, and no configuration. It fails open: it
can delay a caller, and never refuses one. When the first caller leaves, with an answer or with an error, all that wait
go on at once, as they would have done without it. So it is not a mutex.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Hashable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from types import TracebackType
from typing import Any, NamedTuple

from stampede_guard.durations import Duration, advice, seconds
from stampede_guard.errors import PolicyError
from stampede_guard.options import takes_options
from stampede_guard.values.forks import in_children

__all__ = ["DEFAULT_WAIT", "FillLock", "fill_lock"]

DEFAULT_WAIT = 10.0

_Place = tuple[int, "asyncio.Task[Any] | None"]


class _Caller(NamedTuple):
    """A caller inside. `frame`: the number of the frame whose `with` block it is. `mine`: other callers wait for it."""

    frame: int
    place: _Place
    mine: _First | None


class _First:
    """The caller that fills. `gone` gets its result when that caller leaves."""

    def __init__(self, place: _Place) -> None:
        self.place = place
        self.gone: Future[None] = Future()
        self.gone.set_running_or_notify_cancel()  # no waiter can cancel it


# Reentrant: in one of these steps, the garbage collector may end a generator, whose `with` block leaves in this thread.
_lock = threading.RLock()
_inside: dict[Hashable, _First] = {}


@takes_options("fill_lock", own=("wait",))
def fill_lock(*key: object, wait: Duration = DEFAULT_WAIT) -> FillLock:
    """`with fill_lock("report", day):`, and `async with` in a coroutine of asyncio. Callers with equal keys share one.

    `wait`: seconds that a caller waits for the first one; then it goes on. It never waits for itself, nor in plain code
    that blocks an event loop. It covers the threads and event loops of one process; for a fleet, use
    `guard.get_or_compute`. Raises `PolicyError` if `wait` is not a duration.
    """
    longest = seconds(wait)
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not 0 <= longest < float("inf"):
        raise PolicyError("wait", wait, f"write 0 or more seconds{advice(wait)}")
    return FillLock(tuple(map(_hashable, key)), float(longest))


class FillLock:
    """Made by `fill_lock`. One of them may serve many callers: one after the other, nested, or at the same time."""

    def __init__(self, key: Hashable, longest: float) -> None:
        self._key = key
        self._longest = longest
        self._callers: list[_Caller] = []

    def __enter__(self) -> None:
        here = threading.get_ident(), _task()
        first, mine = self._enter(here)
        # A wait would stop the event loop, which the first caller may need.
        if first is not None and not _runs_a_loop():
            wait_for([first.gone], self._longest)
            mine = self._follow(first, here)
        self._callers.append(_Caller(_frame(), here, mine))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(_frame())

    def _exit(self, frame: int) -> None:
        mine = self._left(frame, (threading.get_ident(), _task()))
        if mine is not None:
            _leave(self._key, mine)

    async def __aenter__(self) -> None:
        frame, here = _frame(), (threading.get_ident(), _task())
        first, mine = self._enter(here)
        if first is not None and _runs_a_loop():
            await asyncio.wait({asyncio.wrap_future(first.gone)}, timeout=self._longest)
            mine = self._follow(first, here)
        self._callers.append(_Caller(frame, here, mine))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(_frame())

    def _enter(self, here: _Place) -> tuple[_First | None, _First | None]:
        """The caller to wait for, and the one that others now wait for. A caller inside its own fill gets neither."""
        with _lock:
            first = _inside.get(self._key)
            if first is None:
                mine = _inside[self._key] = _First(here)
                return None, mine
            return (None if first.place == here else first), None

    def _follow(self, first: _First, here: _Place) -> _First | None:
        """After a wait without success, later callers wait for this caller: the first one may hang."""
        with _lock:
            if _inside.get(self._key) is not first:
                return None
            mine = _inside[self._key] = _First(here)
            return mine

    def _left(self, frame: int, here: _Place) -> _First | None:
        """A generator may enter in one thread and leave in another: then its frame says which caller leaves.

        Code without a `with` block may leave from another frame. Then its thread and task say so.
        """
        with _lock:
            likeness = [(caller.frame == frame, caller.place == here) for caller in self._callers]
            _, last = max((alike, at) for at, alike in enumerate(likeness))
            caller = self._callers[last]
            self._callers.remove(caller)
            return caller.mine


def _leave(key: Hashable, first: _First) -> None:
    with _lock:
        if _inside.get(key) is first:
            del _inside[key]
    first.gone.set_result(None)


def _frame() -> int:
    """The number of the frame of our caller's caller. It lives as long as its `with` block, also in a generator.

    Only the number is kept: the frame itself would keep a generator alive that nobody ends, and so its place.
    """
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_globals.get("__name__") == "contextlib":
        frame = frame.f_back
    return id(frame)


def _task() -> asyncio.Task[Any] | None:
    return asyncio.current_task() if _runs_a_loop() else None


def _runs_a_loop() -> bool:
    return asyncio._get_running_loop() is not None


def _hashable(part: object) -> Hashable:
    try:
        hash(part)
    except TypeError:
        return repr(part)
    return part


@in_children
def _leave_the_parents() -> None:
    """The callers inside are threads of the parent."""
    global _lock
    _lock = threading.RLock()
    _inside.clear()
