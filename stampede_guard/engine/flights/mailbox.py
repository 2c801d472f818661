"""What a flight receives while the lease is held elsewhere: messages, and gaps in which a message may be lost."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stampede_guard.core.scripts import Message

__all__ = ["Mailbox"]

MESSAGES = 64
"""The most messages kept for a flight that does not wait yet. One is enough to make it ask the store."""


class Mailbox:
    """The mailbox of one flight. It keeps messages until the flight waits.

    A message may arrive earlier than the answer to the command that registered the flight as a waiter. `trace`: that of
    the message that ended the last wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heard: deque[Message] = deque(maxlen=MESSAGES)
        self._signal: asyncio.Future[None] | None = None
        self._gap = False
        self._look_at = 0.0
        self.trace = ""

    def hear(self, message: Message) -> None:
        self._heard.append(message)
        self._wake()

    def notice_gap(self) -> None:
        self._gap = True
        self._wake()

    def begin_to_ask(self) -> None:
        """The flight asks the store, so earlier gaps do not matter. Messages stay: the answer's fence sorts them."""
        self._gap = False

    def forget(self) -> None:
        self._heard.clear()
        self.trace = ""

    def look_after(self, seconds: float) -> None:
        self._look_at = self._loop.time() + seconds

    async def listen(self) -> Message | None:
        """The next message. None if it is time to ask the store, or if a message may have been lost."""
        self.trace = ""
        while True:
            if self._heard:
                return self._heard.popleft()
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
