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
from typing import Any

from stampede_guard.values.forks import in_children

__all__ = ["WAITING", "PassableLock"]

WAITING: dict[int, int] = {}
"""The threads that now wait for the portal, with the number of their calls."""
LOOK_SECONDS = 0.005
"""How often a thread that waits for a lock checks whether the holder waits for the portal."""
STUCK_LOOKS = 400
"""After so many looks, the holder is taken for one that has left without giving the lock back."""


class PassableLock:
    """Use it only with `with`.

    An exception from a signal (Ctrl-C, a soft time limit) may end `__enter__` or `__exit__` between any two steps. Then
    a thread without the lock may look like a holder. So no thread waits longer than `STUCK_LOOKS`: see `_let_go`.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # because it knows its owner; no thread takes it twice
        # Threads that have the lock, or are about to take it or give it back: a signal can interrupt them there, too.
        # For each `with` of theirs the lock that it took, or None.
        self._inside: dict[int, list[Any]] = {}

    def __enter__(self) -> None:
        me = threading.get_ident()
        held = self._inside.get(me)
        if held is not None:
            held.append(None)
            return
        # Never empty while others see it: a handler that finds it removes only its own entry.
        lock = self._lock
        held = self._inside[me] = [lock]
        try:
            looks = 0
            while not lock.acquire(timeout=LOOK_SECONDS):
                # The lock may be older than gevent's patches. Then its holder is a greenlet, which runs only now.
                time.sleep(0)
                looks += 1
                if looks >= STUCK_LOOKS:
                    self._let_go(lock, me, held)
                if looks >= STUCK_LOOKS or any(
                    thread in WAITING for thread in list(self._inside) if thread != me
                ):
                    held[0] = None
                    return
        except BaseException:
            self._inside.pop(me, None)
            if lock._is_owned():  # type: ignore[attr-defined]
                lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        held = self._inside.get(me)
        if held is None:
            return  # others have waited too long for this thread
        try:
            if (lock := held[-1]) is not None:
                lock.release()
        finally:
            if len(held) > 1:
                held.pop()
            else:
                self._inside.pop(me, None)

    def _let_go(self, lock: Any, me: int, held: list[Any]) -> None:
        """The steps take microseconds: a thread that held the lock for so long has left it. Others get a new one."""
        if self._lock is lock:
            self._lock, self._inside = threading.RLock(), {me: held}


@in_children
def _after_fork() -> None:
    WAITING.clear()
