"""How to call the application: with which fields, and in which scope."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from stampede_guard.engine.engine import CURRENT
from stampede_guard.engine.previous import previous
from stampede_guard.http.answer import covers
from stampede_guard.http.parts.assembling import request_for_the_rest
from stampede_guard.http.requests.exchange import Exchange, Message
from stampede_guard.http.requests.incoming import Incoming
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.message import Fields
from stampede_guard.http.spec.validation import conditions_for, unconditional

if TYPE_CHECKING:
    from stampede_guard.http.cache import Cache

__all__ = ["AROUND", "Try", "begin", "nonce_of", "stored_before", "tries"]

AROUND: ContextVar[Cache | None] = ContextVar("stampede_guard_http_around", default=None)
"""The cache that calls the application."""

Try = tuple[Fields, Fields]
"""The fields of a request, and those that the middleware added."""


def tries(
    request: CacheRequest, old: StoredResponse | None, *, in_background: bool, most_bytes: int
) -> list[Try]:
    """What to ask first, and what to ask if the answer is useless. If no stored response could match the answer,
    the application sees the request unchanged. A body in pieces is never validated: only its pieces show whether it
    is still complete. `most_bytes`: of a body that is stored.
    """
    as_it_came: list[Try] = [(request.fields, ())]
    if in_background:
        as_it_came = [(unconditional(request.without_range()), ())]
    if old is None or old.pieces is not None or request.method in ("HEAD", "POST"):
        # A POST is sent once only: sent again, it might repeat an action.
        return as_it_came
    whole: Try = (request.without_range(), ())
    ours = conditions_for(old.fields)
    if not old.part:
        return [((*whole[0], *ours), ours), whole] if ours else [whole]
    if request.wanted is not None:
        # Its If-Range, too: without it, the application would send a part of a version that this client does not have.
        asked = tuple(pair for pair in request.fields if pair[0] in (b"range", b"if-range"))
        return [((*whole[0], *asked, *ours), ours), whole] if ours and covers(old, request) else as_it_came
    rest = request_for_the_rest(old, most_bytes=most_bytes)
    return [((*whole[0], *rest), rest), whole] if rest else as_it_came


def begin(cache: Cache, request: CacheRequest, incoming: Incoming | None, asked: Try, **own: Any) -> Exchange:
    """A call of the application for this request. Without `incoming` it runs in the background, without a client.
    `own`: the parts of the exchange that concern its own client.
    """
    fields, ours = asked
    context = request.context.copy()
    # This detects a computation that waits for itself, even through the application.
    context.run(CURRENT.set, CURRENT.get())
    context.run(AROUND.set, cache)
    if incoming is None:
        scope = request.in_background(fields)
        body: Message = {"type": "http.request", "body": request.body or b"", "more_body": False}
        receive = Incoming(scope, _nothing_more, (body,)).begin()
        return cache.begin(scope, context, receive, ours=ours, original=request.scope)
    receive = incoming.begin()
    if fields is request.fields:
        return cache.begin(request.scope, context, receive, ours=ours, **own)
    scope = request.with_fields(fields)
    return cache.begin(scope, context, receive, ours=ours, original=request.scope, **own)


async def _nothing_more() -> Message:
    future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await future


def stored_before() -> StoredResponse | None:
    known = previous()
    return known.value if known is not None and isinstance(known.value, StoredResponse) else None


def nonce_of(old: StoredResponse | None) -> str:
    """A response that replaces the one stored at this computation's grant keeps the same variants."""
    return old.nonce if old is not None else ""
