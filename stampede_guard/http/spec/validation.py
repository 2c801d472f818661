"""Conditional requests, from the client and to the origin (RFC 9111, 4.3; RFC 9110, 13)."""

from __future__ import annotations

import re
from typing import Literal

from stampede_guard.http.spec.dates import date_of
from stampede_guard.http.spec.fields import combined, first, has, lines, without
from stampede_guard.http.spec.message import Fields, Response

__all__ = [
    "CONDITIONS",
    "conditions_for",
    "is_not_modified",
    "not_modified",
    "same_representation",
    "weakly_equal",
]

CONDITIONS = (b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since", b"if-range")

_IN_304 = frozenset(
    {
        b"cache-control",
        b"cdn-cache-control",
        b"content-location",
        b"date",
        b"etag",
        b"expires",
        b"vary",
        b"age",
        b"cache-status",
        b"set-cookie",
    }
)
"""RFC 9110, 15.4.5, and fields about the cache itself; and any other targeted field (RFC 9213, 2), by its ending, and
those of CORS, by their beginning: without them, a script that made the condition itself may not read the 304.
"""
_TAG = re.compile(rb'(?:[^",]|"[^"]*"?)+')
"""The text between commas outside quotes. An entity-tag has no escapes (8.8.3), so this is not a list of quoted
strings. Each byte can be read in one way only, so the time is proportional to the field's length.
"""


def is_not_modified(
    request_fields: Fields, stored: Fields, *, now: float, received_at: float | None = None
) -> bool:
    """Whether a stored response answers the request's condition with 304 (RFC 9111, 4.3.2).

    If-None-Match comes before If-Modified-Since, which counts only without it (RFC 9110, 13.2.2). An invalid date
    is ignored. Without Last-Modified, the stored response's Date replaces it, else the time when it was received.
    """
    tags = combined(request_fields, b"if-none-match")
    if tags is not None:
        return _matches_one(tags, first(stored, b"etag"))
    if not has(request_fields, b"if-modified-since"):
        return False
    since = date_of(request_fields, b"if-modified-since", now=now)
    modified = date_of(stored, b"last-modified", now=now)
    if modified is None:
        modified = date_of(stored, b"date", now=now)
    if modified is None:
        modified = received_at
    return since is not None and modified is not None and modified <= since


def _matches_one(tags: bytes, etag: bytes | None) -> bool:
    if tags.strip() == b"*":
        return True
    return etag is not None and any(weakly_equal(tag.strip(b" \t"), etag) for tag in _TAG.findall(tags))


def weakly_equal(one: bytes, other: bytes) -> bool:
    """RFC 9110, 8.8.3.2: equal except for their weakness. A tag without quotes equals only another one without."""
    return one.removeprefix(b"W/") == other.removeprefix(b"W/")


def not_modified(response: Response) -> Response:
    """The 304 for a stored response, with the fields that a 200 would have (RFC 9110, 15.4.5). Last-Modified guides
    an update if there is no ETag.
    """
    kept = _IN_304 if has(response.fields, b"etag") else _IN_304 | {b"last-modified"}
    return Response(
        304,
        tuple(
            pair
            for pair in response.fields
            if pair[0] in kept
            or pair[0].endswith(b"-cache-control")
            or pair[0].startswith(b"access-control-")
        ),
    )


def conditions_for(stored: Fields) -> Fields:
    """RFC 9111, 4.3.1: the conditions of a request that validates a stored response; empty without a validator."""
    found: list[tuple[bytes, bytes]] = []
    etags = lines(stored, b"etag")
    if len(etags) == 1 and etags[0]:
        found.append((b"if-none-match", etags[0]))
    modified = lines(stored, b"last-modified")
    if len(modified) == 1 and modified[0]:
        found.append((b"if-modified-since", modified[0]))
    return tuple(found)


def unconditional(request_fields: Fields) -> Fields:
    """Removes the client's own conditions, because the answer will be served to all."""
    return without(request_fields, CONDITIONS)


def same_representation(stored: Fields, answer: Fields) -> Literal["same", "other", "unknown"]:
    """Which stored response a 304 (or the answer to a HEAD) concerns (RFC 9111, 4.3.4 and 4.3.5).

    A strong validator decides, and matches only an equally strong one; else a weak one or Last-Modified. An answer
    without validators concerns the requested response.
    """
    new, old = first(answer, b"etag"), first(stored, b"etag")
    if new is not None:
        equal = weakly_equal if new.startswith(b"W/") else bytes.__eq__
        return "same" if old is not None and equal(new, old) else "other"
    new, old = first(answer, b"last-modified"), first(stored, b"last-modified")
    if new is not None:
        return "same" if new == old else "other"
    return "unknown"
