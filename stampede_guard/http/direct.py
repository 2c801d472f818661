"""Requests that bypass the stored responses: the application answers them itself, in their own task."""

from __future__ import annotations

from typing import Any

from stampede_guard.http.answer import marked
from stampede_guard.http.cache import Cache, targets_of
from stampede_guard.http.judging import judge, with_body
from stampede_guard.http.requests.entries import base_name
from stampede_guard.http.requests.exchange import Message, Receive, Send, as_fields
from stampede_guard.http.requests.origin import tags_invalidated
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.directives import effective
from stampede_guard.http.spec.fields import first
from stampede_guard.http.spec.freshness import lifetime
from stampede_guard.http.spec.groups import invalidated_groups
from stampede_guard.http.spec.invalidation import invalidated_targets
from stampede_guard.http.spec.message import Response
from stampede_guard.http.spec.status import CacheStatus

__all__ = ["direct", "unsafe"]


async def direct(
    app: Any, request: CacheRequest, receive: Receive, send: Send, status: CacheStatus, cache: Cache
) -> None:
    """With its own scope and `receive`, and without a buffer."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = as_fields(message.get("headers", ()))
            if status.detail == "uncacheable" and _is_storable(
                cache, request, Response(message["status"], fields)
            ):
                cache.marks.drop(key := cache.key_of(request))
                cache.lifted.note_all(key)
            message = {**message, "headers": marked(fields, status, cache.settings)}
        await send(message)

    await app(request.scope, receive, forward)


def _is_storable(cache: Cache, request: CacheRequest, response: Response) -> bool:
    now = cache.now()
    found = judge(request, response, cache.settings, requested_at=now, received_at=now)
    return isinstance(found, StoredResponse) and found.may_be_shared(found.age)


async def unsafe(app: Any, request: CacheRequest, receive: Receive, send: Send, cache: Cache) -> None:
    """RFC 9111, 4.4: responses that the request may have changed are dropped before its client gets the answer."""
    status = CacheStatus(forwarded="method", detail=request.passed)
    kept: list[StoredResponse] = []
    body: list[bytes] = []

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = as_fields(message.get("headers", ()))
            response = Response(message["status"], fields)
            urls = invalidated_targets(request.method, request.target.url, response)
            if urls:
                await cache.invalidate(
                    [request.target, *targets_of(urls[1:])], request.scope, forwarded=request.forwarded_for
                )
            if groups := invalidated_groups(request.method, response):
                await cache.invalidate_groups(tags_invalidated(groups, request.target, request.fields))
            draft = _for_get(cache, request, response)
            if draft is not None:
                kept.append(draft)
            message = {**message, "headers": marked(fields, status, cache.settings)}
        elif kept and message["type"] == "http.response.body":
            body.append(bytes(message.get("body", b"")))
            if sum(map(len, body)) > cache.settings.max_body_bytes:
                kept.clear()
            elif not message.get("more_body", False):
                whole = with_body(kept.pop(), b"".join(body), add_etag=False)
                name = base_name(cache.prefix, request.target, forwarded=request.forwarded_for)
                await cache.put(name, whole)
        await send(message)

    await app(request.scope, receive, forward)


def _for_get(cache: Cache, request: CacheRequest, response: Response) -> StoredResponse | None:
    """RFC 9110, 9.3.3: the response to a POST that states, with a lifetime, that a GET of its URL would give the
    same.
    """
    if request.method != "POST" or first(response.fields, b"content-location") is None:
        return None
    urls = invalidated_targets("POST", request.target.url, Response(200, tuple(
        pair for pair in response.fields if pair[0] == b"content-location"
    )))  # fmt: skip
    now = cache.now()
    told = lifetime(response, effective(response.fields, cache.settings.targets), received_at=now)
    if len(urls) != 1 or not told.explicit or response.status != 200:
        return None
    draft = judge(request, response, cache.settings, requested_at=now, received_at=now, method="POST")
    # The versions of its groups' tags were not read before the request.
    return draft if isinstance(draft, StoredResponse) and not draft.tags else None
