"""A TCP proxy that misbehaves when it is told to: what a network, a middle box or a dying server does to a client.

    async with FaultProxy(port) as proxy:
        client = redis.asyncio.Redis(port=proxy.port)
        proxy.black_hole()
        ...
        proxy.heal()

Faults are told by method calls and hold for connections that exist and for those that are made later.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Literal, Self

from tests.support.resp import Command, CommandCutter

__all__ = ["FaultProxy", "Link"]

_CHUNK = 65_536
Fate = Literal["forward", "lose", "lose_and_reset"]


@dataclass(eq=False)
class Link:
    """One client's connection, with all commands it has sent so far."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    commands: list[Command] = field(default_factory=list)
    losing: Fate = "forward"

    def sent(self, name: bytes) -> bool:
        return any(command.name == name for command in self.commands)

    def reset(self) -> None:
        """Both sides lose the connection at once, without a goodbye (RST)."""
        for writer in (self.client, self.server):
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                with contextlib.suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class FaultProxy:
    """Listens on a free loopback port (`port`) and forwards to `target` on `host`."""

    def __init__(self, target: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        """`tls` is spoken with the clients only."""
        self.target = target
        self._tls = tls
        self.host = host
        self.port = 0
        self.links: list[Link] = []
        self.accepted = 0
        self._latency = 0.0
        self._piece = _CHUNK
        self._pause = 0.0
        self._frozen: set[Link] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._lose: list[tuple[bytes, Fate]] = []
        self._answers: dict[bytes, bytes] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # The transports close in the loop's next turn.
        await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    def commands(self, name: bytes) -> list[Command]:
        """What all connections that still stand have sent under this name."""
        return [command for link in self.links for command in link.commands if command.name == name]

    # --- faults -----------------------------------------------------------------------------------

    def latency(self, seconds: float) -> None:
        """Every reply comes so much later."""
        self._latency = seconds

    def bandwidth(self, piece: int, pause: float) -> None:
        """In either direction `piece` bytes go through at once, then nothing for `pause` seconds."""
        self._piece, self._pause = piece, pause

    def half_open(self) -> int:
        """The connections that stand go nowhere from now on, and nobody is told; new ones are as good as ever. Returns
        how many. What a firewall does that forgets its connections."""
        self._frozen |= set(self.links)
        return len(self.links)

    def black_hole(self) -> None:
        """Connections stand and are accepted, and nothing goes through in either direction until `heal()`."""
        self._open.clear()

    def heal(self) -> None:
        """Everything goes through again, also what was held up."""
        self._latency = 0.0
        self._piece, self._pause = _CHUNK, 0.0
        self._lose.clear()
        self._answers.clear()
        self._open.set()

    def lose_replies(self, name: bytes, *, count: int = 1, fate: Fate = "lose_and_reset") -> None:
        """The next `count` commands of this name are carried out; no reply comes on their connections from then on."""
        self._lose += [(name, fate)] * count

    def answer(self, name: bytes, reply: bytes) -> None:
        """Commands of this name do not reach the server; this is what comes back."""
        self._answers[name] = reply

    def cut(self, which: Callable[[Link], bool] = lambda _: True) -> int:
        """Reset the connections that `which` picks; returns how many."""
        picked = [link for link in self.links if which(link)]
        for link in picked:
            self.links.remove(link)
            link.reset()
        return len(picked)

    async def refuse(self) -> None:
        """Nobody listens any more, and every connection is reset."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    async def listen(self) -> None:
        """Listen (again, on the same port)."""
        listening = socket.create_server((self.host, self.port))
        # What has left a client is as good as at the server, as on a real line: not in a large buffer of ours.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _CHUNK)
        self._server = await asyncio.start_server(self._accept, sock=listening, ssl=self._tls)
        self.port = listening.getsockname()[1]

    # --- forwarding -------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.accepted += 1
        try:
            from_server, to_server = await asyncio.open_connection(self.host, self.target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, to_server)
        self.links.append(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(link, reader))
                both.create_task(self._replies(link, from_server))
        except* (OSError, _Ended, asyncio.CancelledError):
            # Cancelled: the proxy is closed, and asyncio's streams would log a task that says so.
            pass
        finally:
            if link in self.links:
                self.links.remove(link)
            writer.transport.abort()
            to_server.transport.abort()

    async def _pieces(self, link: Link, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """What comes, when and in the pieces in which it may pass."""
        while data := await reader.read(_CHUNK):
            while data:
                if self._pause:
                    await asyncio.sleep(self._pause)
                if link in self._frozen:
                    await asyncio.get_running_loop().create_future()
                await self._open.wait()
                piece, data = data[: self._piece], data[self._piece :]
                yield piece

    async def _requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        cutter = CommandCutter()
        async for data in self._pieces(link, reader):
            for command in cutter.feed(data):
                link.commands.append(command)
                reply = self._answers.get(command.name)
                if reply is not None:
                    link.client.write(reply)
                    continue
                for index, (name, fate) in enumerate(self._lose):
                    if name == command.name:
                        del self._lose[index]
                        link.losing = fate
                        break
                link.server.write(command.raw)
                await link.server.drain()
        raise _Ended

    async def _replies(self, link: Link, reader: asyncio.StreamReader) -> None:
        async for data in self._pieces(link, reader):
            if link.losing == "lose":
                continue
            if link.losing == "lose_and_reset":
                link.reset()
                break
            if self._latency:
                await asyncio.sleep(self._latency)
            link.client.write(data)
            await link.client.drain()
        raise _Ended


class _Ended(Exception):
    """One side has closed its connection; so does the other."""
