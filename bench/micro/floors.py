"""What remains of a hit if the guard costs nothing: the best figures that any cache could reach on this machine."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Self
from urllib.parse import urlsplit

from bench.micro.value import VALUE, VALUE_AS_JSON
from stampede_guard.values.codec import codec_for

__all__ = ["NoStore", "OneGet"]

Waiting = list[asyncio.Future[bytes]]


class NoStore:
    """Answers all reads of one turn of the loop in the next turn but one, with bytes that it already has."""

    def __init__(self) -> None:
        codec = codec_for(Any)
        self._loop = asyncio.get_running_loop()
        self._decode = codec.decode
        self._body = codec.encode(VALUE)
        self._waiting: Waiting = []

    async def call(self, number: int) -> Any:
        future: asyncio.Future[bytes] = asyncio.Future(loop=self._loop)
        if not self._waiting:
            self._ask()
        self._waiting.append(future)
        return self._decode(await future)

    def _ask(self) -> None:
        self._loop.call_soon(self._loop.call_soon, self._answer)

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_result(self._body)


class OneGet(NoStore, asyncio.Protocol):
    """The same with a store: one bare `GET` for all reads of a turn, written to a socket of its own."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._command = b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key.encode())
        self._reply = b"$%d\r\n%b\r\n" % (len(VALUE_AS_JSON), VALUE_AS_JSON)
        self._received = b""
        self._asked: deque[Waiting] = deque()
        self._transport: Any = None

    @classmethod
    async def on(cls, url: str, key: str) -> Self:
        address = urlsplit(url)
        made = cls(key)
        await made._loop.create_connection(lambda: made, address.hostname, address.port)
        return made

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def _ask(self) -> None:
        self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._asked.append(self._waiting)
        self._waiting = []
        self._transport.write(self._command)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= len(self._reply):
            if not self._received.startswith(self._reply):
                raise AssertionError("the server must answer with the value")
            self._received = self._received[len(self._reply) :]
            for future in self._asked.popleft():
                future.set_result(self._body)

    def close(self) -> None:
        self._transport.close()
