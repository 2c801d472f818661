"""What earlier tests have left for good: caches, parsed modules, logs. The garbage collector stops walking through it.

A worker runs thousands of tests. Such objects make one collection take half a second, and tests collect hundreds of
times: some call `gc.collect()`, and Python does it by itself.
"""

from __future__ import annotations

import gc
import time
from typing import Any

__all__ = ["Heap"]

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
