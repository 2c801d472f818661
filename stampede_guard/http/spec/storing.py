"""Whether a response may be stored, and in which form (RFC 9111, 3)."""

from __future__ import annotations

from typing import Literal

from stampede_guard.http.spec.directives import Directives, cache_control
from stampede_guard.http.spec.fields import has, members, without, without_hops
from stampede_guard.http.spec.freshness import HEURISTIC_STATUSES, Lifetime
from stampede_guard.http.spec.message import Fields, Request, Response

__all__ = [
    "NEVER_STORED",
    "UNDERSTOOD",
    "Refusal",
    "is_about_one_request",
    "may_store",
    "stored_fields",
]

UNDERSTOOD = frozenset(
    {200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 305, 307, 308}
    | set(range(400, 418))
    | {421, 422, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 511}
)
"""Final status codes that this cache implements (RFC 9111, 5.2.2.3, with RFC 9110, 15)."""

NEVER_STORED = frozenset({226, 304, 412, 416, 417, 428, 429, 431, 511})
"""Another request would have been answered differently, without this one's condition, range, expectation or
instance manipulation (RFC 3229). Also the statuses that RFC 6585 forbids to store.
"""

_ABOUT_THE_RESOURCE = frozenset({404, 410, 414})
"""Client errors that every request for the URL would get."""
_ABOUT_THE_CLIENT = frozenset({505, 506, 510})
"""Server errors caused by the version, the preferences or the extensions of one request."""


def is_about_one_request(status: int) -> bool:
    """Whether another request for the same URL might get another answer: the status blames this request."""
    return (400 <= status <= 499 and status not in _ABOUT_THE_RESOURCE) or status in _ABOUT_THE_CLIENT


Refusal = Literal[
    "method",
    "status",
    "no-store",
    "private",
    "authorization",
    "vary",
    "partial",
    "nothing to go by",
    "set-cookie",
    "credentials",
    "stream",
    "malformed",
    "groups",
]
"""Why a response is not stored; the `detail` in Cache-Status."""


def may_store(request: Request, response: Response, directives: Directives, life: Lifetime) -> Refusal | None:
    """RFC 9111, 3, condition by condition; None if it may be stored.

    Three rules are stricter than the RFC. A response that can never be used again, stale or fresh, and has no
    validator is not stored. A response with Set-Cookie is stored only with an explicit lifetime: the RFC leaves
    that to the origin (7.3), and an application without a lifetime has not thought of it. An answer to the
    conditions of one request (`NEVER_STORED`) is not stored, whatever its fields: otherwise a client could have it
    served to all.
    """
    if request.method not in ("GET", "HEAD", "POST"):
        return "method"
    if not 200 <= response.status <= 999 or response.status in NEVER_STORED:
        return "status"
    if b"must-understand" in directives and response.status not in UNDERSTOOD:
        return "status"
    # 5.2.2.3: a cache that understands must-understand ignores no-store beside it.
    if b"no-store" in directives and b"must-understand" not in directives:
        return "no-store"
    if has(request.fields, b"cache-control") and b"no-store" in cache_control(request.fields):
        return "no-store"
    if b"private" in directives and not directives.names(b"private"):
        return "private"
    if has(request.fields, b"authorization") and not _shared_with_authorization(directives):
        return "authorization"
    if b"*" in members(response.fields, b"vary"):
        return "vary"
    if has(response.fields, b"set-cookie") and not life.explicit:
        return "set-cookie"
    if request.method == "POST" and not life.explicit:
        return "method"
    return None if _worth_storing(response, directives, life) else "nothing to go by"


def _shared_with_authorization(directives: Directives) -> bool:
    """RFC 9111, 3.5."""
    return any(name in directives for name in (b"must-revalidate", b"public", b"s-maxage"))


def _worth_storing(response: Response, directives: Directives, life: Lifetime) -> bool:
    """RFC 9111, 3, last condition: explicit freshness, `public`, or a status that is cacheable by default. In
    addition, it must have something that a later request can use: remaining time, or a validator.
    """
    allowed = life.explicit or b"public" in directives or response.status in HEURISTIC_STATUSES
    return allowed and (life.seconds > 0 or has_validator(response.fields) or life.explicit)


def has_validator(fields: Fields) -> bool:
    return has(fields, b"etag") or has(fields, b"last-modified")


def stored_fields(response: Response, directives: Directives) -> Fields:
    """RFC 9111, 3.1: without fields for one connection, and without the fields that `no-cache` and `private` list
    (5.2.2.4 and 5.2.2.7: a listed field is for the first requester only, or must be validated before use). Also
    without `Trailer`: it announces fields after the body, and a stored response has none.
    """
    listed = directives.names(b"no-cache") | directives.names(b"private")
    return without(without_hops(response.fields), listed | {b"trailer"})
