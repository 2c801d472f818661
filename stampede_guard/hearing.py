"""What a flight hears while the lease is held elsewhere: messages of the store, and gaps in which one may be lost."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stampede_guard.core.scripts import Message

__all__ = ["Hearing"]

MESSAGES = 64
"""Messages kept for a flight that is not waiting yet. One is enough to make it look."""


class Hearing:
    """Of one flight. Messages are kept until it waits: one may overtake the answer of the ask that registered it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heard: deque[Message] = deque(maxlen=MESSAGES)
        self._signal: asyncio.Future[None] | None = None
        self._gap = False
        self._look_at = 0.0

    def hear(self, message: Message) -> None:
        self._heard.append(message)
        self._wake()

    def notice_gap(self) -> None:
        self._gap = True
        self._wake()

    def begin_to_ask(self) -> None:
        """From here on a gap is news again; messages heard earlier stay: the fence of the answer decides on them."""
        self._gap = False

    def forget(self) -> None:
        self._heard.clear()

    def look_after(self, seconds: float) -> None:
        self._look_at = self._loop.time() + seconds

    async def listen(self, is_news: Callable[[Message], bool]) -> Message | None:
        """The next message that is news; None when it is time to look, or one may have been lost."""
        while True:
            while self._heard:
                message = self._heard.popleft()
                if is_news(message):
                    return message
            remaining = self._look_at - self._loop.time()
            if self._gap or remaining <= 0:
                self._gap = False
                return None
            self._signal = self._loop.create_future()
            timer = self._loop.call_later(remaining, self._wake)
            try:
                await self._signal
            finally:
                timer.cancel()
                self._signal = None

    def _wake(self) -> None:
        if self._signal is not None and not self._signal.done():
            self._signal.set_result(None)
