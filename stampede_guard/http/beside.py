"""Requests that go past the cache, because their responses could not be stored lately.

See `uncacheable.urls` for what is remembered of responses, and why that hides nothing.
"""

from __future__ import annotations

import functools
from typing import Any
from urllib.parse import unquote

from stampede_guard.http.cache import Cache
from stampede_guard.http.direct import lift
from stampede_guard.http.requests.exchange import Message, Receive, Send
from stampede_guard.http.requests.request import CacheRequest, parsed
from stampede_guard.http.requests.routes import Scope
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.spec.groups import ALIASES
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.status import CacheStatus
from stampede_guard.http.uncacheable.outlook import outlook
from stampede_guard.http.uncacheable.templates import template_of
from stampede_guard.http.uncacheable.urls import Visitor, visitor_of
from stampede_guard.http.users.outside import session_of

__all__ = ["beside", "learn"]


async def beside(
    app: Any, scope: Scope, receive: Receive, send: Send, cache: Cache, visitor: Visitor, *, worn: bool
) -> None:
    """The application answers, with its own scope, `receive` and messages. One line is added to its header. `worn`: one
    more response that may not be stored is worth remembering.
    """
    path, settings = scope["path"], cache.settings
    judged = (settings.targets, settings.heuristics, _most_bytes(settings))
    added = _lines(settings.name if settings.cache_status else "", settings.x_cache)
    session = session_of(scope) if "session" in scope else None

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            found = outlook(message["status"], headers, *judged)
            if found == "undeclared":
                found = "storable" if settings.routes and _has_route(cache, scope) else "hopeless"
            if found == "hopeless":
                if worn:
                    cache.uncacheable.renew(visitor, path)
            elif found == "storable":
                _forget(cache, scope, path, visitor, Response(message["status"], tuple(headers)), session)
            if settings.strip_groups:
                headers = [pair for pair in headers if pair[0].lower() not in ALIASES]
            message = {**message, "headers": [*headers, *added]}
        await send(message)

    await app(scope, receive, forward)


def learn(cache: Cache, request: CacheRequest, status: int, fields: Fields, *, stored: bool) -> None:
    """From the response to a request that asked the store. `stored`: the store had something for its URL."""
    if (
        request.user
        or request.method != "GET"
        or not request.plain
        or request.asked is not None
        or (request.forwarded_for and request.forwarded_for != request.target.mount)
    ):
        return
    scope, settings = request.scope, cache.settings
    found = outlook(status, fields, settings.targets, settings.heuristics, _most_bytes(settings))
    if found == "undeclared":
        found = "hopeless" if request.route is None else "storable"
    if found == "unsure" or (found == "hopeless" and stored):
        return
    visitor, path = visitor_of(scope), unquote(request.target.path)
    if visitor is not None:
        keep = cache.uncacheable.note if found == "hopeless" else cache.uncacheable.forget
        keep(visitor, path, template_of(scope, path))


def _has_route(cache: Cache, scope: Scope) -> bool:
    fields, names, target = parsed(scope)
    return target is not None and cache.routing.choose(scope, fields, names, target).route is not None


def _forget(
    cache: Cache, scope: Scope, path: str, visitor: Visitor, response: Response, session: str | None
) -> None:
    """For a response that may be stored, perhaps not for this request: the next one is cached."""
    fields, names, target = parsed(scope)
    if target is None:
        return
    choice = cache.routing.choose(scope, fields, names, target)
    request = CacheRequest.of(scope, choice, fields, names, target)
    if lift(cache, request, response, session):
        cache.uncacheable.forget(visitor, path, template_of(scope, path))


def _most_bytes(settings: Settings) -> int:
    """A larger body is never stored."""
    return max(settings.max_body_bytes, settings.max_pieces_bytes)


@functools.lru_cache(maxsize=16)
def _lines(name: str, x_cache: bool) -> tuple[tuple[bytes, bytes], ...]:
    status = CacheStatus(forwarded="bypass", detail="uncacheable")
    told = ((b"cache-status", status.serialise(name)),) if name else ()
    return (*told, (b"x-cache", b"MISS")) if x_cache else told
