"""gevent: with `monkey.patch_all()`, new threads are greenlets, and one thread of the system runs them all.

The event loop of plain functions then runs in a greenlet, and so do the computations. Its `select` is gevent's: while
it waits, the other greenlets run. Two things need care:

- Python remembers the running event loop per thread of the system. So the other greenlets would find this one. Their
  `asyncio.run` would fail. `_Selector` takes the note away while it waits.
- A start through `threading` waits until the new thread runs. Meanwhile, other greenlets continue. `start_thread` does
  not wait: what follows it in the code happens before any other greenlet runs.
- A forked child has a copy of each greenlet, while threads are gone there. A copy of the loop would read what wakes the
  parent's loop. `ended_copy` ends it.
"""

from __future__ import annotations

import _thread
import asyncio
import selectors
import sys
import threading
from collections.abc import Callable
from typing import Any

from stampede_guard.errors import Misuse

__all__ = [
    "ended_copy",
    "new_event_loop",
    "refuse_eventlet",
    "start_thread",
    "this_greenlet",
    "threads_are_greenlets",
]


def threads_are_greenlets() -> bool:
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_object_patched("_thread", "start_new_thread"))


def refuse_eventlet() -> None:
    """Raises `Misuse` if eventlet has patched threads.

    Calls would mostly work. But every greenlet would find the event loop of plain functions as its own running one: an
    `asyncio.run` elsewhere in the program fails.
    """
    patcher: Any = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        raise Misuse(
            "eventlet has patched threads, and stampede_guard does not support eventlet. Use gevent instead "
            "(gunicorn --worker-class gevent, celery --pool gevent), or threads (gthread, --pool threads)"
        )


def start_thread(function: Callable[..., object], *args: Any, name: str) -> threading.Thread | None:
    """Start a daemon thread. None: it is a greenlet, which does not run yet. Raises `RuntimeError` at the limit."""
    if threads_are_greenlets():
        _thread.start_new_thread(function, args)
        return None
    thread = threading.Thread(target=function, args=args, name=name, daemon=True)
    thread.start()
    return thread


def this_greenlet() -> Any:
    """None if threads are threads."""
    return sys.modules["gevent"].getcurrent() if threads_are_greenlets() else None


def ended_copy(greenlet: Any) -> None:
    """After a fork, in the child: end the copy of this greenlet before it runs again."""
    if greenlet is not None:
        greenlet.kill(block=False)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop for a thread of `start_thread`. Raises `Misuse` if it would stop all greenlets while it waits, and under
    eventlet.
    """
    refuse_eventlet()
    if not threads_are_greenlets():
        return asyncio.new_event_loop()
    monkey: Any = sys.modules["gevent.monkey"]
    for module, name in (("select", "select"), ("socket", "socket")):
        if not monkey.is_object_patched(module, name):
            raise Misuse(
                f"gevent has patched threads, but not the module {module}: the event loop of stampede_guard would stop "
                "all greenlets. Write gevent.monkey.patch_all() without exceptions, before the other imports"
            )
    selector = _selector_class()()
    loop = asyncio.SelectorEventLoop(selector)
    selector.owner = loop
    return loop


def _selector_class() -> Any:
    waiting: Any = selectors.DefaultSelector  # gevent's, which has replaced the one of the system

    class _Selector(waiting):  # type: ignore[misc]
        owner: asyncio.AbstractEventLoop | None = None
        _of_others: asyncio.AbstractEventLoop | None = None

        def select(self, timeout: float | None = None) -> Any:
            """Other greenlets may set a running loop during the wait (`asyncio.run`). Keep it for them."""
            asyncio._set_running_loop(self._of_others)
            try:
                return super().select(timeout)
            finally:
                self._of_others = asyncio._get_running_loop()
                asyncio._set_running_loop(self.owner)

    return _Selector
