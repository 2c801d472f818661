"""The cache behind a real server, with real pauses: all cases at once, since each has a URL of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Literal

import h11

from bench.herd.processes import start
from bench.herd.valkey import free_port
from tests.http.suite.cases import ROOT, Case
from tests.http.suite.play import Answer, Result, Seat, play

__all__ = ["Server", "ask", "play_all", "serving"]

Server = Literal["uvicorn", "granian"]
APP = "tests.http.suite.server:make"
AT_ONCE = 64


@contextlib.asynccontextmanager
async def serving(
    server: Server, *, app: str = APP, workers: int = 1, **variables: str
) -> AsyncIterator[int]:
    """The port on which it listens."""
    port = free_port()
    # Without --no-date-header uvicorn puts a Date of its own before that of the answer.
    commands: dict[Server, list[str]] = {
        "uvicorn": [
            "uvicorn",
            "--factory",
            app,
            "--port",
            str(port),
            "--no-date-header",
            "--log-level",
            "critical",
        ],
        "granian": [
            "granian",
            "--factory",
            app,
            "--port",
            str(port),
            "--interface",
            "asgi",
            "--log-level",
            "critical",
        ],
    }
    several = ["--workers", str(workers)] if workers > 1 else []
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    child = start([sys.executable, "-m", *commands[server], *several], env=environment, cwd=ROOT)
    try:
        async with asyncio.timeout(60):
            while not await _listens(port):
                assert child.running, f"{server} ended"
                await asyncio.sleep(0.05)
        yield port
    finally:
        await asyncio.to_thread(child.stop)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def play_all(cases: dict[str, Case], port: int, *, run: str, at_once: int = AT_ONCE) -> list[Result]:
    turns = asyncio.Semaphore(at_once)

    async def client(method: str, path: str, fields: list[tuple[str, str]], body: bytes) -> Answer:
        return await ask(port, method, path, fields, body)

    async def one(case: Case) -> Result:
        async with turns, asyncio.timeout(60):
            return await play(case, Seat(client, asyncio.sleep, run))

    return list(await asyncio.gather(*map(one, cases.values())))


async def ask(port: int, method: str, path: str, fields: list[tuple[str, str]], body: bytes) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        connection = h11.Connection(h11.CLIENT)
        given = [("Host", f"127.0.0.1:{port}"), ("Connection", "close"), *fields]
        if body:
            given.append(("Content-Length", str(len(body))))
        head = h11.Request(
            method=method, target=path, headers=[(name, value.strip()) for name, value in given]
        )
        sent = [connection.send(head)]
        if body:
            sent.append(connection.send(h11.Data(data=body)))
        sent.append(connection.send(h11.EndOfMessage()))
        writer.write(b"".join(part for part in sent if part))
        return await _answer(connection, reader)
    finally:
        writer.close()


async def _answer(connection: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    status, fields, body = 0, [], b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Response):
            status = event.status_code
            fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers]
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, fields, body)
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionError("closed without an answer")
