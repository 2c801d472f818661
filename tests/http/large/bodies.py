"""An application with a body of several pieces, which comes when it is allowed to, and its clients."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard.http.pieces.piece import PIECE_BYTES
from tests.http.fleet import App, Fleet, cached, start
from tests.http.large.content import LARGE, whole
from tests.http.test_traps_streaming import Client
from tests.support.gate import until

__all__ = ["LargeApp", "clients", "has_bytes", "is_broken", "let_go"]


def let_go(held: asyncio.Semaphore) -> None:
    for _ in range(100):
        held.release()


class LargeApp(App):
    """Sends `PIECE_BYTES` for each `more`, and then the rest. `fails`: it raises after so many bytes. `announced`: with
    a Content-Length. With another `status`, its answer is small.
    """

    def __init__(
        self, *, fails: int | None = None, size: int = LARGE, announced: bool = True, **headers: str
    ) -> None:
        super().__init__(cached(**({"content_length": str(size)} if announced else {}), **headers))
        self.more = asyncio.Semaphore(1000)
        self.fails = fails
        self.size = size
        self.handler = self._answer

    async def _answer(self, scope: Any, receive: Any, send: Any, number: int) -> None:
        await self.go.wait()
        if self.status != 200:
            await start(send, {}, self.status)
            await send({"type": "http.response.body", "body": b"no"})
            return
        await start(send, self.headers)
        body = whole(number, self.size)
        for begin in range(0, self.size, PIECE_BYTES):
            await self.more.acquire()
            if self.fails is not None and begin >= self.fails:
                raise RuntimeError("the application broke")
            part = body[begin : begin + PIECE_BYTES]
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def has_bytes(client: Client, count: int) -> None:
    await until(lambda: len(client.body) >= count)


async def is_broken(client: Client, kind: type[BaseException]) -> None:
    """It had a part of the body, and learned that this is not all."""
    async with asyncio.timeout(60):
        await asyncio.wait({client.task})
    assert isinstance(client.task.exception(), kind), client.task
    assert client.messages[-1]["more_body"] is True
    assert len(client.body) < LARGE


def clients(fleet: Fleet, count: int) -> list[Client]:
    return [Client(fleet, process=n % len(fleet.middlewares)) for n in range(count)]
