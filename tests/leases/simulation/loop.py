"""An event loop whose time passes when there is nothing left to do, and only then."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

__all__ = ["Stuck", "VirtualLoop"]


MOST_TURNS = 100_000
"""In one moment."""


class Stuck(Exception):
    """Nothing is ready and nothing ever will be: somebody waits for ever. Or somebody turns on the spot for ever."""


class _NoSockets(selectors.BaseSelector):
    """Waits by moving the clock on. What a loop registers of its own is never ready."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._turns = 0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stuck
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > MOST_TURNS:
            raise Stuck
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.virtual = _NoSockets()
        super().__init__(self.virtual)

    def time(self) -> float:
        return self.virtual.now
