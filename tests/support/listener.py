"""A session's listener that remembers what it heard, and lets a test wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stampede_guard.core.scripts import Message
from stampede_guard.errors import StoreRefused

__all__ = ["PATIENCE", "RecordingListener"]

PATIENCE = 60.0
"""Seconds after which something that a test waits for is taken never to come."""


class RecordingListener:
    """`messages`, `gaps` and `breaker` (True = away) in the order in which they came."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Message]] = []
        self.gaps = 0
        self.changes: list[tuple[str, int]] = []
        self.breaker: list[bool] = []
        self.why: list[str] = []
        self.unkept: list[tuple[str, StoreRefused]] = []
        self._changed = asyncio.Event()

    def heard(self, name: str, message: Message) -> None:
        self.messages.append((name, message))
        self._changed.set()

    def changed(self, name: str, fence: int) -> None:
        self.changes.append((name, fence))
        self._changed.set()

    def gap(self) -> None:
        self.gaps += 1
        self._changed.set()

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        self.breaker.append(away)
        if away:
            self.why.append(why)
        self._changed.set()

    def not_kept(self, name: str, error: StoreRefused) -> None:
        self.unkept.append((name, error))
        self._changed.set()

    def about(self, name: str) -> list[Message]:
        return [message for entry, message in self.messages if entry == name]

    async def until(self, condition: Callable[[RecordingListener], bool]) -> None:
        """Wait until what was heard meets the condition. Raises `TimeoutError` that shows what was heard."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            heard = f"messages={self.messages}, gaps={self.gaps}, breaker={self.breaker}"
            raise TimeoutError(f"never heard; until now: {heard}") from None

    async def message(self, name: str) -> Message:
        """The latest message about an entry, waiting for the first."""
        await self.until(lambda heard: bool(heard.about(name)))
        return self.about(name)[-1]
