"""A lock for short steps. A signal handler that needs it does not wait for ever.

1. The main thread holds a lock. 2. A signal interrupts it, and the handler calls a cached plain function. 3. The
portal's thread serves that call and wants the same lock. The holder stands still until the handler has its answer. With
an ordinary lock all of them wait for ever, and a reentrant lock does not help another thread.

So a thread passes the lock in two cases: it finds that the holder waits for the portal, or it is itself the interrupted
holder. Each protected step must therefore tolerate that another step runs while it is half done. It may change one
dictionary, but not two that must agree.
"""

from __future__ import annotations

import threading
import time

from stampede_guard.values.forks import in_children

__all__ = ["WAITING", "PassableLock"]

WAITING: dict[int, int] = {}
"""The threads that now wait for the portal, with the number of their calls."""
LOOK_SECONDS = 0.005
"""How often a thread that waits for a lock checks whether the holder waits for the portal."""


class PassableLock:
    """Use it only with `with`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Threads that have the lock, or are about to take it or give it back: a signal can interrupt them there, too.
        self._inside: dict[int, list[bool]] = {}

    def __enter__(self) -> None:
        me = threading.get_ident()
        held = self._inside.get(me)
        if held is not None:
            held.append(False)
            return
        # Never empty while others see it: a handler that finds it takes away only what it has added.
        held = self._inside[me] = [True]
        while not self._lock.acquire(timeout=LOOK_SECONDS):
            # The lock may be older than gevent's patches. Then its holder is a greenlet, which runs only now.
            time.sleep(0)
            if any(thread in WAITING for thread in list(self._inside) if thread != me):
                held[0] = False
                return

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        held = self._inside[me]
        if held[-1]:
            self._lock.release()
        if len(held) > 1:
            held.pop()
        else:
            del self._inside[me]


@in_children
def _after_fork() -> None:
    WAITING.clear()
