"""A server of Redis's protocol that answers as a test says: what no real server does when it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

from stampede_guard.stores.connections.calls import Script
from tests.support.resp import CommandCutter

__all__ = ["ScriptedServer", "array", "bulk"]

_SCRIPTS = {
    Script(name, prelude=name != "read").digest: name
    for name in (
        "acquire",
        "renew",
        "publish",
        "invalidate",
        "release",
        "fallback",
        "tag",
        "drop_tag",
        "modes",
        "switch",
        "read",
    )
}

Answer = bytes | None | Callable[[tuple[bytes, ...]], bytes | None]


class ScriptedServer:
    """`answers` by a script's name, or by a command's (in capitals); None = no answer at all.

    Without one: scripts are answered as by an empty store, where that is easy; the rest with OK. `asked` has the names
    of all that came, in order. `slots` makes it the only node of a cluster.
    """

    def __init__(self, *, slots: bool = False) -> None:
        self.answers: dict[str, Answer] = {"modes": b"*0\r\n", "drop_tag": b"$-1\r\n", "release": b":0\r\n"}
        self.asked: list[str] = []
        self.port = 0
        self.slots = slots
        self.writers: set[asyncio.StreamWriter] = set()
        self.subscribers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self.writers):
            writer.transport.abort()

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.port}" if self.slots else f"redis://127.0.0.1:{self.port}"

    def push(self, data: bytes) -> None:
        """To all that have subscribed."""
        for writer in self.subscribers:
            writer.write(data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        cutter = CommandCutter()
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                for command in cutter.feed(data):
                    answer = self._answer(command.parts, writer)
                    if answer is not None:
                        writer.write(answer)
        self.writers.discard(writer)
        self.subscribers.discard(writer)
        writer.close()

    def _answer(self, parts: tuple[bytes, ...], writer: asyncio.StreamWriter) -> bytes | None:
        name = parts[0].decode().upper()
        if name == "EVALSHA":
            name = _SCRIPTS.get(parts[1], name)
        self.asked.append(name)
        if name in self.answers:
            told = self.answers[name]
            return told(parts) if callable(told) else told
        match name:
            case "SUBSCRIBE":
                self.subscribers.add(writer)
                return array(bulk(b"subscribe"), bulk(parts[1]), b":1\r\n")
            case "PING":
                return array(bulk(b"pong"), bulk(b""))
            case "PUBSUB":
                return array(bulk(parts[2]), b":%d\r\n" % (1 if self.subscribers else 0))
            case "CLUSTER":
                return array(
                    array(
                        b":0\r\n",
                        b":16383\r\n",
                        array(bulk(b"127.0.0.1"), b":%d\r\n" % self.port, bulk(b"id")),
                    )
                )
            case "read":
                return array(*[b"$-1\r\n:-2\r\n"] * int(parts[2])).replace(
                    b"*%d" % int(parts[2]), b"*%d" % (2 * int(parts[2])), 1
                )
            case "invalidate":
                return bulk(b"1700000000000000")
            case "acquire":
                return array(bulk(b"granted"), bulk(b"1700000000000000"), bulk(b"epoch"), bulk(b"0"))
            case "renew" | "publish":
                return b":1\r\n"
            case "switch":
                return b":0\r\n"
            case "tag":
                return bulk(parts[-2])
            case "fallback":
                return array(bulk(b"denied"))
            case "EVAL":
                return b":1\r\n"
            case _:
                return b"+OK\r\n"


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


def array(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(parts)
