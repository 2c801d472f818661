"""A POST that a route treats like a GET: its body is read first, because it is part of the key."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stampede_guard.http.cache import Cache
from stampede_guard.http.direct import unsafe
from stampede_guard.http.requests.exchange import Message, Receive, Send, content_length
from stampede_guard.http.requests.incoming import Incoming
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.spec.fields import lines
from stampede_guard.http.visit import Visit
from stampede_guard.values.parts.parts import digest

__all__ = ["posted"]


async def posted(
    app: Any, request: CacheRequest, receive: Receive, send: Send, cache: Cache, *, bypassed: bool
) -> None:
    """Like a GET, if its body is not too large, and the client sends neither a condition nor `no-store`. Otherwise
    like any other POST.
    """
    most = cache.settings.max_request_bytes
    announced = content_length(request.fields)
    if not request.plain or request.only_for_itself or (announced is not None and announced > most):
        await unsafe(app, request, receive, send, cache)
        return
    body, read = await _read(receive, most)
    again = _replayed(read, receive)
    if body is None:
        await unsafe(app, request, again, send, cache)
        return
    assert request.route is not None
    route, part, passed = cache.routing.by_key(request.route, {**request.scope, "body": body})
    if route is None:
        await unsafe(app, replace(request, route=None, passed=passed), again, send, cache)
        return
    asked = replace(request, body=body, part=_question(request, body) + part)
    incoming = Incoming(request.scope, receive, tuple(read))
    await Visit(cache, asked, app, incoming, send).answer(bypassed=bypassed)


def _question(request: CacheRequest, body: bytes) -> str:
    """The parts of a POST that belong to its name: its body and the type of its body."""
    kind = [lines(request.fields, name) for name in (b"content-type", b"content-encoding")]
    return f"POST {kind!r} {digest(body.decode('latin-1'))} "


async def _read(receive: Receive, most: int) -> tuple[bytes | None, list[Message]]:
    """The body, and the messages that contained it; None if it is larger, or if the client left before its end."""
    read: list[Message] = []
    size = 0
    while True:
        message = await receive()
        read.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or size > most:
            return None, read
        if not message.get("more_body", False):
            return b"".join(bytes(one.get("body", b"")) for one in read), read


def _replayed(read: list[Message], receive: Receive) -> Receive:
    """For a request that is answered directly: the messages already read, then the rest."""
    messages = iter(read)

    async def again() -> Message:
        for message in messages:
            return message
        return await receive()

    return again
