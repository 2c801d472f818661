"""A response to its client as it comes from the application, whole and in the order of its messages.

`until_stored` is awaited before the last byte: the next request of the same client finds what was stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from stampede_guard.http.pieces.spool import Spool
from stampede_guard.http.requests.exchange import BrokenOff, Exchange, Message, Send
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.fields import without_hops

if TYPE_CHECKING:
    from stampede_guard.http.fetch import Fetch

__all__ = ["hand_on", "is_for_others", "leave_to_readers", "let_read", "read_along", "send_own"]

BACKGROUND_SECONDS = 10.0
"""How long a request whose response is stored waits for the application's later work."""

Headers = list[tuple[bytes, bytes]]
Wait = Callable[[], Awaitable[None]]


async def hand_on(exchange: Exchange, headers: Headers, send: Send, until_stored: Wait) -> None:
    """A response that is not stored is sent as without a cache, in the application's task."""

    async def outlet(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": headers}
        elif not message.get("more_body", False):
            await until_stored()
            message = _with_its_end(message)
        await send(message)

    exchange.hand_to(outlet)
    await exchange.end()


async def send_own(exchange: Exchange, headers: Headers, send: Send, until_stored: Wait) -> None:
    """To the client of the call that made it, while it is kept for all. Its client may be slow, or gone: then
    only this request ends here.
    """
    exchange.carry()
    await send({**exchange.start, "headers": headers})
    sent, more = 0, True
    async for part, sent in exchange.parts(spooled=False):
        if sent == exchange.length or (exchange.complete and sent == exchange.size):
            await until_stored()
        exchange.carry()
        message = _with_its_end(part.message)
        await send(message)
        more = message.get("more_body", False)
    if exchange.spool is not None and more:
        await _send_rest(exchange, exchange.spool, sent, send, until_stored)
    exchange.served = True
    if exchange.holds_file or exchange.spool is not None:
        exchange.let_go()
    # As without a cache, a middleware around this one continues after the application has ended: background
    # tasks still use what it opened for the request.
    await exchange.end(within=BACKGROUND_SECONDS)


async def _send_rest(exchange: Exchange, spool: Spool, sent: int, send: Send, until_stored: Wait) -> None:
    async with aclosing(spool.read(sent)) as chunks:
        async for chunk in chunks:
            exchange.carry()
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await until_stored()
    exchange.carry()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def read_along(exchange: Exchange, headers: Headers, send: Send, until_stored: Wait) -> None:
    """Reads the response of another request's call as it comes."""
    await send({"type": "http.response.start", "status": exchange.status, "headers": headers})
    more = True
    async for part, sent in exchange.parts():
        if not part.chunk:
            continue
        if sent == exchange.length or (exchange.complete and sent == exchange.size):
            await until_stored()
        more = not exchange.complete or sent < exchange.size
        if not more and exchange.is_short:
            break
        await send({"type": "http.response.body", "body": part.chunk, "more_body": more})
    if exchange.is_short:
        raise BrokenOff("the body is not as long as Content-Length says")
    if more:
        await until_stored()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _with_its_end(message: Message) -> Message:
    """Adds the final flag if the application omits it."""
    if message["type"] != "http.response.body" or "more_body" in message:
        return message
    return {**message, "more_body": False}


def let_read(exchange: Exchange, draft: StoredResponse, readers: list[Fetch]) -> None:
    """If its size is known, by requests that came before it began.

    1. A request joins after the exchange began. 2. In between, an entry was invalidated. It must not be served what
       may be older, so it waits for the store's answer.
    """
    if not readers:
        return
    if exchange.length is None or draft.part or not draft.may_be_shared(draft.age):
        # A part would be wrong for readers: these want the whole.
        return
    names = {b"age", *(name for name, _ in draft.fields)}
    fields = tuple(pair for pair in without_hops(exchange.fields) if pair[0] in names)
    for reader in readers:
        asked = reader.request
        if asked.plain and not reader.live.done() and draft.is_for(asked.fields) and asked.may_have(draft):
            exchange.shared = reader.collapsed = True
            reader.shared_fields, reader.draft = fields, draft
            reader.live.set_result(exchange)


def is_for_others(exchange: Exchange | None, others: list[Fetch]) -> bool:
    """Whether others wait for its response. If that is not stored, they wait in vain, but some may read it already."""
    if exchange is not None and exchange.live:
        return any(other.read is exchange for other in others if not other.gone)
    return (exchange is not None and exchange.shared) or not all(other.gone for other in others)


def leave_to_readers(exchange: Exchange, readers: list[Fetch]) -> None:
    """It is not stored any more. It continues for those who read it already, and ends without them."""
    if not exchange.is_settled:
        exchange.go_live()
        if is_for_others(exchange, readers):
            return
    exchange.cancel()
