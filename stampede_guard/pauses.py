"""Pauses: entries that this process leaves alone for a moment."""

from __future__ import annotations

import asyncio

__all__ = ["Pauses"]


class Pauses:
    """Names end by themselves, so nothing grows with the number of keys."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def begin(self, name: str, seconds: float) -> None:
        """One that is under way is not prolonged."""
        if seconds > 0 and name not in self._names:
            self._names.add(name)
            self._loop.call_later(seconds, self._names.discard, name)
