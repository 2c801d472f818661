"""A response whose body is stored in pieces, as the answer to a request: each piece is sent when it is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from stampede_guard.engine.tasks import retrieve
from stampede_guard.http.answer import marked, reply, send_response
from stampede_guard.http.large.bodies import BodySource, LargeBodies
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import PieceGone, PieceUnread
from stampede_guard.http.requests.exchange import Exchange, Receive, Send
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.fields import without, without_hops
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.ranges import ByteSpan, bounds, if_range_holds
from stampede_guard.http.spec.status import CacheStatus
from stampede_guard.http.spec.validation import is_not_modified, not_modified
from stampede_guard.http.streaming import BACKGROUND_SECONDS

__all__ = ["LargeAnswer", "answer_in_pieces", "serve_in_pieces"]


class LargeAnswer(NamedTuple):
    """`wanted`: the bytes of its body; None for no body (a HEAD, 304 or 416)."""

    response: Response
    layout: PieceLayout
    wanted: ByteSpan | None


def answer_in_pieces(stored: StoredResponse, request: CacheRequest, *, age: float, now: float) -> LargeAnswer:
    """The same as `answer`, without the body."""
    layout = stored.pieces
    assert layout is not None
    fields = (*stored.fields, (b"age", b"%d" % max(0, int(age))))
    response = Response(stored.status, fields)
    received_at = now - max(0.0, age - stored.age)
    if is_not_modified(request.fields, stored.fields, now=now, received_at=received_at):
        return LargeAnswer(not_modified(response), layout, None)
    if request.method == "HEAD":
        return LargeAnswer(response, layout, None)
    wanted = request.wanted
    if wanted is None or not if_range_holds(request.fields, stored.fields, now=now):
        return LargeAnswer(response, layout, layout.whole)
    span = bounds(wanted, layout.length)
    if span is None:
        told = ((b"content-range", b"bytes */%d" % layout.length), (b"content-length", b"0"))
        return LargeAnswer(Response(416, told), layout, None)
    told = (
        (b"content-range", b"bytes %d-%d/%d" % (*span, layout.length)),
        (b"content-length", b"%d" % span.size),
    )
    fields = (*without(fields, (b"content-range", b"content-length")), *told)
    return LargeAnswer(Response(206, fields), layout, span)


async def serve_in_pieces(
    bodies: LargeBodies,
    key: str,
    answer: LargeAnswer,
    status: CacheStatus,
    settings: Settings,
    receive: Receive | None,
    send: Send,
    source: BodySource | None,
) -> bool:
    """Whether the request was answered. False: its first piece is gone, and nothing was sent.

    If a later piece is gone, it raises `PieceGone`. The server then ends the connection before as many bytes as
    Content-Length says. If only this client cannot read a piece, it raises `PieceUnread`, or answers 503 if nothing was
    sent yet. The response stays for others.

    `source`: the call of the application that makes the body, if it is this request's own. Its error is raised then.
    `receive`: None if the application receives its client's messages.
    """
    response, layout, wanted = answer
    if wanted is None:
        if source is not None:
            source.own.leave()
        await send_response(send, response, status, settings, head=response.status == 200)
        return True
    pieces = bodies.read(layout, wanted, None if source is None else source.own)
    async with aclosing(pieces), _told(receive) as gone:
        try:
            piece = await anext(pieces)
        except PieceGone:
            if source is not None:
                _raise_of(source.exchange)
            return False
        except PieceUnread as error:
            if source is None and error.is_away:
                return False
            await reply(send, 503, "Try again.", CacheStatus(detail="timeout"), settings, _SOON)
            return True
        headers = marked(_fields_of(response, source), status, settings)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        left = wanted.size
        while not gone.is_set():
            left -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
            if not left:
                break
            try:
                piece = await anext(pieces)
            except PieceGone as gone_piece:
                await bodies.drop(key, layout, gone=gone_piece.number)
                if source is not None:
                    _raise_of(source.exchange)
                raise
    if source is not None:
        # As without a cache, a middleware around this one continues after the application has ended.
        await source.exchange.end(within=BACKGROUND_SECONDS)
        source.exchange.carry()
    return True


def _fields_of(response: Response, source: BodySource | None) -> Fields:
    if source is None:
        return response.fields
    source.exchange.carry()
    # With what is for this client only.
    return without_hops(source.exchange.fields) if response.status == 200 else response.fields


_SOON = (b"retry-after", b"1")


def _raise_of(source: Exchange) -> None:
    if source.error is not None:
        source.carry()
        raise source.error


_MOST_MESSAGES = 8
"""A `receive` of a test, or of another middleware, may return the same request again and again, without a wait."""


@asynccontextmanager
async def _told(receive: Receive | None) -> AsyncIterator[asyncio.Event]:
    """Set when the client leaves: servers accept its messages afterwards, and nothing would end the reading."""
    gone = asyncio.Event()
    if receive is None:
        yield gone
        return

    async def listen() -> None:
        for _ in range(_MOST_MESSAGES):
            if (await receive())["type"] == "http.disconnect":
                gone.set()
                return

    listening = asyncio.ensure_future(listen())
    listening.add_done_callback(retrieve)
    try:
        yield gone
    finally:
        listening.cancel()
