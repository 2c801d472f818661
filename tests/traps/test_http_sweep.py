"""Every response of a table: what another client gets of it was made for it, or declared shareable.

The application marks each body with the client that it computed it for. So the marks show what crossed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.gate import until
from tests.support.listener import PATIENCE
from tests.traps.sweep import KINDS, Kind, Row, may_be_served, rows
from tests.traps.web import Reply, Site, serving

ROWS = rows()
AT_ONCE = 32
NEVER = (
    "set-cookie", "set-cookie2", "authentication-info", "clear-site-data", "keep-alive", "proxy-authenticate",
    "proxy-authentication-info", "proxy-authorization", "proxy-connection", "te", "upgrade",
)  # fmt: skip
"""Response fields for one client or one connection. They never reach another client."""


class Marking:
    """Answers with the row that the path names. Each byte of the body is the mark of the client."""

    def __init__(self) -> None:
        self.calls: dict[str, list[str]] = {}
        self.held: dict[str, asyncio.Event] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        who = dict(scope["headers"])[b"user-agent"].decode()
        self.calls.setdefault(path, []).append(who)
        if path in self.held:
            await self.held[path].wait()
        number = int(path.split("/")[1])
        row = ROWS[number]
        body = b"" if row.status in (204, 304) else who.encode() * 8
        pairs = row.fields(who) if who != FIRST.who else [("cache-control", "private")]
        if body and number % 3 and not {"content-length", "transfer-encoding"} & dict(pairs).keys():
            # With a known length, a waiter reads the response while it is written.
            pairs.append(("content-length", f"{len(body)}"))
        headers = [(name.encode(), value.encode()) for name, value in pairs]
        await send({"type": "http.response.start", "status": row.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Client(NamedTuple):
    """`who` is one letter, which also fills the body that the application computes for this client."""

    who: str
    kind: Kind

    @property
    def fields(self) -> dict[str, str]:
        own = {name: value.replace("{who}", self.who) for name, value in KINDS[self.kind].items()}
        return {"user-agent": self.who} | own


class Visitors:
    """Their connections are used again: one for each request would cost more than the request."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, client: Client, row: Row, path: str) -> Reply | None:
        """None: the server broke the response off, as it must for some."""
        try:
            if "content-length" in dict(row.more.fields):
                # A wrong length: only the end of the connection is the end of the response.
                own = {name.replace("-", "_"): value for name, value in client.fields.items()}
                reply = await self._site.ask(path, **own)
                length = reply.fields.get("content-length", "")
                return None if length.isdigit() and len(reply.body) != int(length) else reply
            return await self._ask(client, path)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _ask(self, client: Client, path: str) -> Reply:
        lines = [f"GET {path} HTTP/1.1", "host: shop.example"]
        lines += [f"{name}: {value}" for name, value in client.fields.items()]
        request = "\r\n".join([*lines, "", ""]).encode()
        while self._free:
            try:
                return await self._write(request, *self._free.pop())
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                # The server may close a connection before it reads another request from it.
                if getattr(error, "partial", b""):
                    raise
        return await self._write(request, *await asyncio.open_connection("127.0.0.1", self._site.port))

    async def _write(
        self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Reply:
        kept = False
        try:
            writer.write(request)
            async with asyncio.timeout(PATIENCE):
                reply = await read(reader)
            kept = "close" not in reply.fields.get("connection", "")
            return reply
        finally:
            if kept:
                self._free.append((reader, writer))
            else:
                writer.close()

    def close(self) -> None:
        for _, writer in self._free:
            writer.close()


async def read(reader: asyncio.StreamReader) -> Reply:
    """One response of a connection that goes on."""
    first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in rest if line]
    fields = {name.lower(): value.strip() for name, _, value in pairs}
    status, body = int(first.split()[1]), b""
    if status in (204, 304):
        pass
    elif "content-length" in fields:
        body = await reader.readexactly(int(fields["content-length"]))
    else:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    return Reply(status, fields, body)


FIRST = Client("Z", "cookie")
"""Its response is private, whatever the row says."""


def crossed(row: Row, reply: Reply, own: Client, others: list[Client], calls: list[str]) -> Client | None:
    """The other client whose response this one got."""
    for other in others:
        if other.who.encode() in reply.body:
            return other
    if own.who.encode() in reply.body or own.who in calls:
        return None
    # No byte shows it (a 304, an empty body), and the application was not called for this client.
    assert reply.status in (204, 304) or not reply.body, (row, reply)
    return others[0]


def faults(
    row: Row, reply: Reply | None, own: Client, others: list[Client], calls: list[str]
) -> Iterator[str]:
    if reply is None:
        return
    maker = crossed(row, reply, own, others, calls)
    if maker is None:
        first = others[0]
        if not row.more.unsure and own.who == "C" and may_be_served(row, first.fields, own.fields):
            yield f"a response to {first.kind} was declared shareable, and {own.kind} was answered anew"
        if marks := [
            name for name, value in reply.fields.items() if value in {other.who for other in others}
        ]:
            yield f"{marks} of another client beside an own body"
        return
    if not may_be_served(row, maker.fields, own.fields):
        yield f"a response to {maker.kind} was served to {own.kind}"
    for name in (*NEVER, *row.withheld):
        if name in reply.fields and not (name == "connection" and reply.fields[name] == "close"):
            yield f"{name} of {maker.kind} was served to {own.kind}"


def report(found: list[tuple[Row, str]]) -> str:
    lines = [f"{row.status} {[*row.control.fields, *row.more.fields]}: {fault}" for row, fault in found]
    return "\n".join([f"{len(found)} faults", *lines[:40]])


_OTHER: dict[Kind, Kind] = {"anonymous": "cookie", "range": "conditional"}


@pytest.mark.parametrize("kind", KINDS)
async def test_another_client_gets_what_is_its_own_or_declared_shareable(kind: Kind) -> None:
    """Two clients wait for a call whose response is private. So one of them calls next, and the other reads along.
    Then two more come, one after the other.
    """
    app, found, shared = Marking(), list[tuple[Row, str]](), 0
    clients = [
        Client("A", kind),
        Client("B", kind),
        Client("C", kind),
        Client("D", _OTHER.get(kind, "anonymous")),
    ]

    async def play(visitors: Visitors, site: Site, number: int, row: Row) -> None:
        nonlocal shared
        path = f"/{number}/x"
        go = app.held[path] = asyncio.Event()
        first = asyncio.ensure_future(visitors.ask(FIRST, row, path))
        await until(lambda: path in app.calls or first.done())
        at_once = [asyncio.ensure_future(visitors.ask(client, row, path)) for client in clients[:2]]
        flights = site.guard.engine.runtime().flights
        await until(lambda: any(flight.joined > 2 and path in name for name, flight in flights.items()))
        go.set()
        await first
        replies = [*(await asyncio.gather(*at_once))]
        replies += [await visitors.ask(client, row, path) for client in clients[2:]]
        for client, reply in zip(clients, replies, strict=True):
            others = [other for other in clients if other is not client]
            found.extend((row, fault) for fault in faults(row, reply, client, others, app.calls[path]))
            shared += reply is not None and crossed(row, reply, client, others, app.calls[path]) is not None

    async with serving(app) as site:
        visitors, turns = Visitors(site), asyncio.Semaphore(AT_ONCE)

        async def in_turn(number: int, row: Row) -> None:
            async with turns:
                await play(visitors, site, number, row)

        async with asyncio.TaskGroup() as group:
            for number, row in enumerate(ROWS):
                group.create_task(in_turn(number, row))
        visitors.close()
    assert not found, report(found)
    # Otherwise nothing was shared, and the marks showed nothing.
    assert shared > 200, shared
