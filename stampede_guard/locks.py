"""A lock for short steps that a signal's handler cannot wait for in vain.

1. The main thread holds a lock. 2. A signal interrupts it, and the handler calls a cached plain function. 3. That is
served on the portal's thread, which wants the same lock. Its holder stands still until the handler has its answer: with
an ordinary lock all wait for ever, and a reentrant one does not help another thread.

So who finds that the holder waits for the portal, or is interrupted itself, goes past it. What is protected so must be
steps that may be left half done for the time of another one: one dictionary changed, not two that must agree.
"""

from __future__ import annotations

import os
import threading

__all__ = ["WAITING", "PassableLock"]

WAITING: dict[int, int] = {}
"""The threads that wait for the portal now, with the number of their calls."""
LOOK_SECONDS = 0.005
"""How often who waits for a lock looks whether its holder waits for the portal."""


class PassableLock:
    """For `with` only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Threads that have the lock, or are about to take it or to give it back: they can be interrupted there as well.
        self._inside: dict[int, list[bool]] = {}

    def __enter__(self) -> None:
        me = threading.get_ident()
        held = self._inside.setdefault(me, [])
        if held:
            held.append(False)
            return
        held.append(True)
        while not self._lock.acquire(timeout=LOOK_SECONDS):
            if any(thread in WAITING for thread in list(self._inside) if thread != me):
                held[0] = False
                return

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        held = self._inside[me]
        if held[-1]:
            self._lock.release()
        held.pop()
        if not held:
            del self._inside[me]


def _after_fork() -> None:
    WAITING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
