"""Server-sent events: a page's parts, rendered anew while the page is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

__all__ = ["MOST_STREAMS", "Streams"]

MOST_STREAMS = 32
"""At once, in one process. A page that gets none stays as it is, works, and asks again in half a minute."""
EVERY_SECONDS = 2.5
UPDATES = 8
"""Of one stream, about twenty seconds. The browser then connects again, and `allow` decides again. A server that shuts
down waits for its streams, and does not tell a mounted application."""
AGAIN_MS = 1_000
"""After how long the browser connects again, where browsers would choose three to five seconds."""


class Streams:
    """`pause(seconds)` waits; a test gives its own."""

    def __init__(self, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._pause = pause
        self._open = 0

    @property
    def is_full(self) -> bool:
        return self._open >= MOST_STREAMS

    async def follow(self, render: Callable[[], Awaitable[str]]) -> AsyncIterator[bytes]:
        """Events with the rendered text, whenever it has changed. Nothing if others have taken the last places since
        `is_full` was asked: the browser then connects again, and is refused.
        """
        if self.is_full:
            return
        self._open += 1
        try:
            last = ""
            for _ in range(UPDATES):
                text = await render()
                yield b": unchanged\n\n" if text == last else _event(text)
                last = text
                await self._pause(EVERY_SECONDS)
        finally:
            self._open -= 1


def _event(text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"{lines}retry: {AGAIN_MS}\n\n".encode("utf-8", "replace")
