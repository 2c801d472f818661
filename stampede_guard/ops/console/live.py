"""Server-sent events: a page's parts, rendered anew while the page is open; and what a page showed last."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Generic, TypeVar

__all__ = [
    "LAST_SECONDS",
    "MOST_SHARED",
    "MOST_STREAMS",
    "SHARED_SECONDS",
    "LastAnswers",
    "LiveAnswers",
    "Streams",
]

MOST_STREAMS = 32
"""At once, in one process. A page that gets none stays as it is, works, and asks again in half a minute."""
EVERY_SECONDS = 2.5
UPDATES = 8
"""Of one stream, about twenty seconds. The browser then connects again, and `allow` decides again. A server that shuts
down waits for its streams, and does not tell a mounted application."""
AGAIN_MS = 1_000
"""After how long the browser connects again, where browsers would choose three to five seconds."""

SHARED_SECONDS = 3.0
"""How old the data of an open page may be. Pages of jobs and leases cost their servers many commands."""
MOST_SHARED = MOST_STREAMS
"""Pages, each with its query."""
LAST_SECONDS = 3600.0
"""How old the data may be that a page shows while the store is away."""

Answer = TypeVar("Answer")


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


class LiveAnswers(Generic[Answer]):
    """What open pages show, made once for all viewers of a page and its query. `clock`: seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: OrderedDict[Hashable, tuple[float, asyncio.Future[Answer]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._made)

    async def get(self, page: Hashable, make: Callable[[], Awaitable[Answer]]) -> Answer:
        """Of at most `SHARED_SECONDS` ago, or being made now. Raises what `make` raises, and keeps no failure."""
        at, answer = self._made.get(page, (0.0, None))
        if answer is None or not self._serves(answer, at):
            answer = asyncio.ensure_future(make())
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._made[page] = self._clock(), answer
            self._made.move_to_end(page)
            if len(self._made) > MOST_SHARED:
                self._made.popitem(last=False)
        # A viewer that leaves must not take the answer from the others.
        return await asyncio.shield(answer)

    def forget(self) -> None:
        """Something was just done here: the next update shows it."""
        self._made.clear()

    def _serves(self, answer: asyncio.Future[Answer], at: float) -> bool:
        if answer.get_loop() is not asyncio.get_running_loop():
            return False
        if not answer.done():
            return True
        return self._clock() - at < SHARED_SECONDS and not answer.cancelled() and answer.exception() is None


class LastAnswers(Generic[Answer]):
    """What pages showed last, for the time that the store is away. `clock`: seconds since 1970, as pages show it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, Answer]] = OrderedDict()

    def keep(self, page: Hashable, answer: Answer) -> None:
        self._kept[page] = self._clock(), answer
        self._kept.move_to_end(page)
        if len(self._kept) > MOST_SHARED:
            self._kept.popitem(last=False)

    def get(self, page: Hashable) -> tuple[float, Answer] | None:
        """With the time when it was read."""
        found = self._kept.get(page)
        if found is not None and self._clock() - found[0] > LAST_SECONDS:
            self._kept.pop(page, None)
            return None
        return found


def _event(text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"{lines}retry: {AGAIN_MS}\n\n".encode("utf-8", "replace")
