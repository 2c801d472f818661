"""An event loop whose time passes when there is nothing left to do, and only then.

A thread that this library has begun for a plain function is something left to do: its result may be on the way.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Mapping
from typing import Any

__all__ = ["Stuck", "VirtualLoop"]


MOST_TURNS = 100_000
"""In one moment."""
LONGEST_THREAD = 60.0
"""Real seconds. A thread that waits for the virtual time would wait for ever."""


class Stuck(Exception):
    """Nothing is ready and nothing ever will be: somebody waits for ever. Or somebody turns on the spot for ever."""


class _NoSockets(selectors.BaseSelector):
    """Waits by moving the clock on. What a loop registers of its own is never ready."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._turns = 0
        self.told = False
        """A thread has given the loop something to do."""
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self._strangers = frozenset(threading.enumerate())

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout != 0 and (self._threads_ended() or self.told):
            # The loop computed the time-out before a thread told it something. That comes first, at this moment.
            self.told = False
            return []
        if timeout is None:
            raise Stuck
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > MOST_TURNS:
            raise Stuck
        self.now += max(0.0, timeout)
        return []

    def _threads_ended(self) -> bool:
        """Wait for the threads of plain functions. Whether there were some."""
        working = [
            thread
            for thread in threading.enumerate()
            if thread.name.startswith("stampede_guard ") and thread not in self._strangers
        ]
        for thread in working:
            thread.join(LONGEST_THREAD)
            if thread.is_alive():
                raise Stuck(f"{thread.name} does not end")
        return bool(working)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.virtual = _NoSockets()
        super().__init__(self.virtual)

    def time(self) -> float:
        return self.virtual.now

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        handle = super().call_soon_threadsafe(*args, **kwargs)
        self.virtual.told = True
        return handle
