"""What earlier tests have left for good: caches, parsed modules, logs. The garbage collector stops walking through it.

A worker runs thousands of tests. Such objects make one collection take half a second, and tests collect hundreds of
times: some call `gc.collect()`, and Python does it by itself.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Heap", "collect"]

LONG = 0.05
"""Seconds of computing. If one collection takes more, the collector has too much to walk through."""


class Heap:
    """The objects of this process. They are frozen between two tests: what a test makes can die within it."""

    def __init__(self, *, long: float = LONG) -> None:
        self._long = long
        self._began = 0.0
        self._slow = False
        gc.callbacks.append(self._collected)

    def settle(self) -> None:
        """After a long collection: collect once more, and exclude what survives from those that follow."""
        if self._slow:
            gc.collect()
            gc.freeze()
            self._slow = False

    def close(self) -> None:
        gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began = time.thread_time()
        elif time.thread_time() - self._began > self._long:
            self._slow = True


def _pause() -> None:
    time.sleep(0.001)


def collect(pause: Callable[[], object] = _pause) -> None:
    """Collect what nobody refers to. `gc.collect()` does nothing while another thread collects; this one tries again.

    1. A thread that another test has left collects. The collector calls Python code: a finalizer, or a callback such as
    those of `Heap` and Hypothesis. 2. In it, this thread gets its turn. `gc.collect()` returns at once. 3. What the
    test has dropped is still there. `pause` lets the other thread go on.
    """
    here, done = threading.get_ident(), threading.Event()

    def collected(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2 and threading.get_ident() == here:
            done.set()

    gc.callbacks.append(collected)
    try:
        gc.collect()
        while not done.is_set():
            pause()
            gc.collect()
    finally:
        gc.callbacks.remove(collected)
