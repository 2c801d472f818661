"""Requests whose body is part of their key: QUERY (RFC 10008), and a POST that a route treats like a GET."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stampede_guard.http.cache import Cache
from stampede_guard.http.direct import direct, unsafe
from stampede_guard.http.requests.exchange import Message, Receive, Send, content_length
from stampede_guard.http.requests.incoming import Incoming
from stampede_guard.http.requests.question import question
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.spec.status import CacheStatus
from stampede_guard.http.visit import Visit
from stampede_guard.values.parts.parts import digest

__all__ = ["posted", "queried"]


async def posted(
    app: Any, request: CacheRequest, receive: Receive, send: Send, cache: Cache, *, bypassed: bool
) -> None:
    """Like a GET, if its body is not too large, and the client sends neither a condition nor `no-store`, nor another
    method in a field. Otherwise like any other POST.
    """
    body, again = None, receive
    read: list[Message] = []
    if request.plain and not request.only_for_itself and not request.overridden:
        body, again, read = await _read(request, receive, cache)
    if body is None:
        await unsafe(app, request, again, send, cache)
        return
    asked = _asked(request, body, cache)
    if asked.route is None:
        await unsafe(app, asked, again, send, cache)
        return
    incoming = Incoming(request.scope, receive, tuple(read))
    await Visit(cache, asked, app, incoming, send).answer(bypassed=bypassed)


async def queried(
    app: Any, request: CacheRequest, receive: Receive, send: Send, cache: Cache, *, bypassed: bool
) -> None:
    """Like a GET, if its body is not too large, and the client wants neither a range nor `no-store`."""
    body, again = None, receive
    read: list[Message] = []
    if request.wanted is None and not request.only_for_itself and not request.overridden:
        body, again, read = await _read(request, receive, cache)
    if body is None:
        await direct(app, request, again, send, CacheStatus(forwarded="bypass"), cache)
        return
    incoming = Incoming(request.scope, receive, tuple(read))
    await Visit(cache, _asked(request, body, cache), app, incoming, send).answer(bypassed=bypassed)


def _asked(request: CacheRequest, body: bytes, cache: Cache) -> CacheRequest:
    """The request with its body in its key. Without a route if the route's key function says so."""
    own = digest(question(request.method, request.fields, body, json_bodies=cache.settings.json_bodies))
    if request.route is None:
        return replace(request, body=body, part=own)
    found = cache.routing.by_key(request.route, {**request.scope, "body": body})
    part = f"{own} {found.part}" if found.route else own
    return replace(request, body=body, route=found.route, passed=found.passed, part=part)


async def _read(
    request: CacheRequest, receive: Receive, cache: Cache
) -> tuple[bytes | None, Receive, list[Message]]:
    """The body, and the messages that contained it, for another call; no body if it is larger than allowed, or if the
    client left before its end.
    """
    most = cache.settings.max_request_bytes
    announced = content_length(request.fields)
    if announced is not None and announced > most:
        return None, receive, []
    read: list[Message] = []
    size = 0
    while True:
        message = await receive()
        read.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or size > most:
            return None, _replayed(read, receive), read
        if not message.get("more_body", False):
            body = b"".join(bytes(one.get("body", b"")) for one in read)
            return body, _replayed(read, receive), read


def _replayed(read: list[Message], receive: Receive) -> Receive:
    """For a request that is answered directly: the messages already read, then the rest."""
    messages = iter(read)

    async def again() -> Message:
        for message in messages:
            return message
        return await receive()

    return again
