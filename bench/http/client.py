"""Users as sockets: each requests one URL again and again, and the time of every answer is kept.

The client reads only the status and the length of a response. With more work, the client itself would be measured.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import cast

__all__ = ["Answers", "Failed", "ask", "ask_once"]

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_LEAD = 0.1
_PATIENCE = 20.0


class Failed(RuntimeError):
    """An answer with another status than 200, an answer without a recognisable end, or a connection that ended."""


@dataclass(slots=True)
class Answers:
    """`seconds` that each took, and those from the first question to the last answer."""

    seconds: list[float] = field(default_factory=list)
    errors: int = 0
    took: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.seconds) / self.took

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _User(asyncio.Protocol):
    """`pause` seconds from one question to the next, or from a late answer to the next; 0 = at once. Until `end`."""

    def __init__(self, question: bytes, answers: Answers, *, end: float, pause: float, delay: float) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._question = question
        self._answers = answers
        self._end = end
        self._pause = pause
        self._delay = delay
        self._data = b""
        self._asked = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an instance where uvloop makes it.
        self._transport = cast(asyncio.Transport, transport)
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._ask)
        else:
            self._ask()

    def _ask(self) -> None:
        if self.done.done():
            return
        self._asked = time.monotonic()
        if self._asked >= self._end:
            self._finish(None)
        elif self._transport is not None:
            self._transport.write(self._question)

    def data_received(self, data: bytes) -> None:
        self._data = data = self._data + data if self._data else data
        head = data.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(data, 0, head + 2)
        if data[9:12] != b"200" or length is None:
            self._finish(Failed(data[:300].decode("latin-1")))
        elif len(data) >= head + 4 + int(length[1]):
            self._data = b""
            now = time.monotonic()
            self._answers.seconds.append(now - self._asked)
            left = self._asked + self._pause - now
            if self._pause and left > 0:
                asyncio.get_running_loop().call_later(left, self._ask)
            else:
                self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(Failed(f"the connection was closed: {error}"))

    def _finish(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error) if error is not None else self.done.set_result(None)


async def ask(
    port: int, path: str, *, users: int, seconds: float, pause: float = 0.0, tolerant: bool = False
) -> Answers:
    """`users` connections ask for `seconds`. Raises `Failed`, `OSError`; if `tolerant`, errors are counted instead."""
    question = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: */*\r\n\r\n".encode()
    answers = Answers()
    # Everybody sets off when all are connected, and those with a pause spread over it.
    started = time.monotonic() + _LEAD

    async def user(number: int) -> None:
        begin = started + pause * number / users
        while begin < started + seconds:
            try:
                await _connected(port, question, answers, begin=begin, end=started + seconds, pause=pause)
            except Failed:
                if not tolerant:
                    raise
                answers.errors += 1
                begin = time.monotonic() + pause
            else:
                return

    async with asyncio.timeout(_LEAD + seconds + _PATIENCE):
        await asyncio.gather(*[user(number) for number in range(users)])
    answers.took = time.monotonic() - started
    return answers


async def _connected(
    port: int, question: bytes, answers: Answers, *, begin: float, end: float, pause: float
) -> None:
    loop = asyncio.get_running_loop()
    transport, asking = await loop.create_connection(
        lambda: _User(question, answers, end=end, pause=pause, delay=max(0.0, begin - time.monotonic())),
        "127.0.0.1",
        port,
    )
    try:
        await asking.done
    finally:
        transport.close()


async def ask_once(port: int, path: str) -> None:
    """Raises `Failed`, `OSError`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: */*\r\nconnection: close\r\n\r\n".encode()
        )
        async with asyncio.timeout(_PATIENCE):
            answer = await reader.read()
    finally:
        writer.close()
    if answer[9:12] != b"200":
        raise Failed(answer[:300].decode("latin-1"))
