"""A stored response as the answer to a request: 200, 304, 206 or 416, with or without its body."""

from __future__ import annotations

from stampede_guard.http.parts.assembling import cut
from stampede_guard.http.requests.exchange import Send
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.fields import first, has, without
from stampede_guard.http.spec.groups import ALIASES
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.ranges import bounds, if_range_holds, unsatisfiable
from stampede_guard.http.spec.status import CacheStatus
from stampede_guard.http.spec.validation import is_not_modified, not_modified

__all__ = ["answer", "covers", "marked", "reply", "send_response"]


def covers(stored: StoredResponse, request: CacheRequest) -> bool:
    """Whether stored parts contain the requested range (RFC 9111, 3.3). A whole response always does. A range has a
    meaning for GET only (RFC 9110, 14.2).
    """
    if not stored.part or (held := stored.held) is None:
        return True
    wanted = request.wanted
    if (
        wanted is None
        or request.method != "GET"
        or not if_range_holds(request.fields, stored.fields, now=0.0)
    ):
        return False
    if stored.asked == first(request.fields, b"range") or cut(stored, stored.response, wanted) is not None:
        return True
    return held.length is not None and bounds(wanted, held.length) is None


def answer(stored: StoredResponse, request: CacheRequest, *, age: float, now: float) -> Response:
    """With its `Age` (RFC 9111, 5.1), and never a new Date."""
    # Always add it, even if Expires or Date would be enough: a downstream cache calculates with it.
    fields = (*stored.fields, (b"age", b"%d" % max(0, int(age))))
    response = Response(stored.status, fields, stored.body)
    if request.plain or request.method not in ("GET", "HEAD", "QUERY"):
        return response
    if stored.status in (200, 206) and is_not_modified(
        request.fields, stored.fields, now=now, received_at=now - max(0.0, age - stored.age)
    ):
        return not_modified(response)
    wanted = request.wanted
    if (
        wanted is not None
        and request.method == "GET"
        and stored.status in (200, 206)
        and (stored.spans or if_range_holds(request.fields, stored.fields, now=now))
    ):
        # Several parts are never sent as they are stored. `covers` has asked whether If-Range holds.
        if stored.part and stored.asked == first(request.fields, b"range"):
            return response
        part = cut(stored, response, wanted)
        if part is not None:
            return part
        # No other case is left: `covers` passes requests outside a stored part to the application.
        return unsatisfiable(response, stored.held) or response
    return response


def marked(fields: Fields, status: CacheStatus, settings: Settings) -> list[tuple[bytes, bytes]]:
    """Appends one member to Cache-Status (RFC 9211, 2). The members of other caches stay before it."""
    if settings.strip_groups:
        fields = without(fields, ALIASES)
    found = [*fields]
    if settings.cache_status:
        found.append((b"cache-status", status.serialise(settings.name)))
    if settings.x_cache:
        found.append((b"x-cache", b"HIT" if status.hit else b"MISS"))
    return found


async def send_response(
    send: Send, response: Response, status: CacheStatus, settings: Settings, *, head: bool
) -> None:
    fields = response.fields
    body = b"" if head or response.status in (204, 304) else response.body
    if response.status not in (204, 304) and not has(fields, b"content-length") and not head:
        fields = (*without(fields, (b"content-length",)), (b"content-length", b"%d" % len(body)))
    start = {
        "type": "http.response.start",
        "status": response.status,
        "headers": marked(fields, status, settings),
    }
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def reply(
    send: Send,
    code: int,
    text: str,
    status: CacheStatus,
    settings: Settings,
    *extra: tuple[bytes, bytes],
    head: bool = False,
) -> None:
    """A response made by the middleware itself. `head`: to a HEAD."""
    body = text.encode()
    fields = ((b"content-type", b"text/plain; charset=utf-8"), *extra)
    await send_response(send, Response(code, fields, body), status, settings, head=head)
