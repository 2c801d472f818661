"""Requests that bypass the stored responses: the application answers them itself, in their own task."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Self

from msgspec.structs import replace

from stampede_guard.engine.tasks import running_loop
from stampede_guard.http.answer import marked
from stampede_guard.http.cache import Cache
from stampede_guard.http.judging import judge, with_body
from stampede_guard.http.requests.entries import Target, base_name, target_of, target_of_url
from stampede_guard.http.requests.exchange import Message, Receive, Send, as_fields, content_length
from stampede_guard.http.requests.origin import known_as, tags_invalidated
from stampede_guard.http.requests.paths import PathFilter
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.requester import site_part
from stampede_guard.http.requests.routes import Scope
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.directives import effective
from stampede_guard.http.spec.fields import first
from stampede_guard.http.spec.freshness import lifetime
from stampede_guard.http.spec.groups import invalidated_groups
from stampede_guard.http.spec.invalidation import invalidated_targets, is_own
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.status import CacheStatus
from stampede_guard.http.users.outside import session_of

__all__ = ["AnswerToPost", "changing_others", "direct", "lift", "unsafe"]


async def direct(
    app: Any,
    request: CacheRequest,
    receive: Receive,
    send: Send,
    status: CacheStatus,
    cache: Cache,
    *,
    seen: Callable[[int, Fields], None] | None = None,
) -> None:
    """With its own scope and `receive`, and without a buffer. `seen` gets the status and fields of the response."""
    session = session_of(request.scope) if status.detail == "uncacheable" else None

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = as_fields(message.get("headers", ()))
            if status.detail == "uncacheable":
                lift(cache, request, Response(message["status"], fields), session)
            if seen is not None:
                seen(message["status"], fields)
            message = {**message, "headers": marked(fields, status, cache.settings)}
        await send(message)

    await app(request.scope, receive, forward)


def lift(cache: Cache, request: CacheRequest, response: Response, session: str | None) -> bool:
    """Requests for this URL wait and ask the store again, if this response to one that did not could be stored.
    Returns whether it could. `session`: before the application was called.
    """
    now = cache.now()
    found = judge(request, response, cache.settings, requested_at=now, received_at=now, session=session)
    if not (isinstance(found, StoredResponse) and found.may_be_shared(found.age)):
        return False
    cache.marks.drop(key := cache.key_of(request))
    cache.lifted.note_all(key)
    return True


async def unsafe(app: Any, request: CacheRequest, receive: Receive, send: Send, cache: Cache) -> None:
    """RFC 9111, 4.4: responses that the request may have changed are dropped before its client gets the answer."""
    status = CacheStatus(forwarded="method", detail=request.passed)
    # Its response may be stored for the GETs of all: so no credential is in the key.
    request = replace(request, user="", route=None)
    later: AnswerToPost | None = None
    session = session_of(request.scope) if request.method == "POST" else None

    async def forward(message: Message) -> None:
        nonlocal later
        if message["type"] == "http.response.start":
            fields = as_fields(message.get("headers", ()))
            response = Response(message["status"], fields)
            told = known_as(request.target, request.fields)
            urls = invalidated_targets(request.method, request.target.url, response, told)
            if urls:
                others = _alike(urls[1:], request.target.root)
                places = (request.site, request.forwarded_for)
                await cache.invalidate([request.target, *others], request.scope, forwarded=places)
            if groups := invalidated_groups(request.method, response):
                await cache.invalidate_groups(tags_invalidated(groups, request.target, request.fields))
            if not message.get("trailers"):
                later = await AnswerToPost.begin(cache, request, response, session)
            message = {**message, "headers": marked(fields, status, cache.settings)}
        elif later is not None:
            later = await later.take(message)
        await send(message)

    await app(request.scope, receive, forward)


async def changing_others(
    app: Any, scope: Scope, receive: Receive, send: Send, cache: Cache, paths: PathFilter
) -> None:
    """An unsafe request for a path that this cache does not store. RFC 9111, 4.4: the responses for its Location and
    Content-Location are dropped, if these paths are stored, and those of its groups (RFC 9875, 3). Otherwise no command
    is sent.
    """
    running_loop()  # before the application changes its data

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            # A list: it is read twice.
            message = {**message, "headers": list(message.get("headers", ()))}
            fields = as_fields(message["headers"])
            if not _NAMES_OTHERS.isdisjoint([name for name, _ in fields]):
                await _drop_others(scope, Response(message["status"], fields), cache, paths)
        await send(message)

    await app(scope, receive, forward)


async def _drop_others(scope: Scope, response: Response, cache: Cache, paths: PathFilter) -> None:
    fields = as_fields(scope["headers"])
    target = target_of(scope, fields)
    if target is not None:
        urls = invalidated_targets(scope["method"], target.url, response, known_as(target, fields))
        others = _alike(urls[1:], target.root)
        stored = [other for other in others if not paths.leaves({"path": other.path})]
        if stored:
            told = site_part({name for name, _ in fields}, fields, scheme=target.scheme, host=target.host)
            await cache.invalidate(stored, fields=fields, forwarded=(f"{target.mount}{told}",))
        if groups := invalidated_groups(scope["method"], response):
            await cache.invalidate_groups(tags_invalidated(groups, target, fields))


def _alike(urls: tuple[str, ...], root: str) -> list[Target]:
    told = [target for url in urls if (target := target_of_url(url)) is not None]
    return [one for target in told for one in target.alike(root)]


_NAMES_OTHERS = frozenset({b"location", b"content-location", b"cache-group-invalidation"})


class AnswerToPost:
    """The response to a POST while it comes, if it will be stored for GETs of its URL."""

    def __init__(
        self, cache: Cache, draft: StoredResponse, put: Callable[[StoredResponse], Awaitable[bool]]
    ) -> None:
        self._cache = cache
        self._draft = draft
        self._put = put
        self._began = cache.now()
        self._body: list[bytes] = []
        self._size = 0

    @classmethod
    async def begin(
        cls, cache: Cache, request: CacheRequest, response: Response, session: str | None
    ) -> Self | None:
        """None: it will not be stored. Awaited before its client gets the first line: what changes the URL after that
        is newer. `session`: before the application was called.
        """
        draft = _for_get(cache, request, response, session)
        if draft is None:
            return None
        name = base_name(cache.prefix, request.target, forwarded=request.forwarded_for)
        put = await cache.put_later(name, draft)
        return None if put is None else cls(cache, draft, put)

    async def take(self, message: Message) -> Self | None:
        """None: it has been stored, or will not be."""
        chunk = bytes(message.get("body", b""))
        self._body.append(chunk)
        self._size += len(chunk)
        if message["type"] != "http.response.body" or self._size > self._cache.settings.max_body_bytes:
            return None
        if message.get("more_body", False):
            return self
        if content_length(self._draft.fields) in (None, self._size):
            whole = with_body(self._draft, b"".join(self._body), add_etag=False)
            # The clock may have been set back meanwhile.
            seconds = max(0.0, self._cache.now() - self._began)
            await self._put(replace(whole, age=whole.age + seconds))
        return None


def _for_get(
    cache: Cache, request: CacheRequest, response: Response, session: str | None
) -> StoredResponse | None:
    """RFC 9110, 9.3.3: the response to a POST that states, with a lifetime, that a GET of its URL would give the
    same.
    """
    location = first(response.fields, b"content-location")
    if request.method != "POST" or request.overridden or location is None:
        return None
    if cache.routing.has_users:
        # Its user may be named by what no field shows, and a route for GET only does not name the user of a POST.
        return None
    if not is_own(location, request.target.url, known_as(request.target, request.fields)):
        return None
    now = cache.now()
    told = lifetime(response, effective(response.fields, cache.settings.targets), received_at=now)
    if not told.explicit or response.status != 200:
        return None
    judged = functools.partial(judge, requested_at=now, received_at=now, method="POST", session=session)
    draft = judged(request, response, cache.settings)
    # The versions of its groups' tags were not read before the request.
    return draft if isinstance(draft, StoredResponse) and not draft.tags else None
