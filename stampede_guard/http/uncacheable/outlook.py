"""Whether a cache could store the responses of a URL, judged by one of them alone, without its request.

Cheaper than a judgement of the whole exchange (RFC 9111, 3), and less exact: what it cannot decide is "unsure".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Literal, NamedTuple

from stampede_guard.http.spec.directives import Directives, cache_control, targeted
from stampede_guard.http.spec.storing import NEVER_STORED

__all__ = ["Outlook", "outlook"]

Outlook = Literal["storable", "hopeless", "undeclared", "unsure"]

_PARTIAL = 206
_LONGEST = 256
"""Bytes of a Cache-Control whose meaning is remembered."""


class _Said(NamedTuple):
    """`forbids`: no shared cache may store it. `declared`: it has a lifetime, or is for all. `validates`: no-cache."""

    forbids: bool = False
    declared: bool = False
    validates: bool = False


_NOTHING = _Said()


def outlook(
    status: int,
    headers: Iterable[tuple[bytes, bytes]],
    targets: tuple[bytes, ...],
    heuristics: bool,
    most_bytes: int,
) -> Outlook:
    """`hopeless`: such a response is stored for no request. `undeclared`: the same, unless a route gives it a lifetime.
    `storable`: it may be stored for some request.

    Errors are "unsure", because a client can cause them: they prove nothing about other requests. So is a response
    that sets a cookie or varies on everything, if it has a lifetime. `headers` as the application sends them.
    """
    if not 200 <= status < 400 or status == _PARTIAL or status in NEVER_STORED:
        return "unsure"
    control = b""
    aimed: list[tuple[bytes, bytes]] = []
    length = 0
    expires = validator = personal = False
    for given, value in headers:
        name = given.lower()
        if name == b"content-length":
            length = int(value) if value.isdigit() and len(value) < 19 else 0
        elif name == b"cache-control":
            control = control + b", " + value if control else value
        elif name == b"expires":
            expires = True
        elif name == b"etag" or name == b"last-modified":
            validator = True
        elif name == b"set-cookie" or (name == b"vary" and b"*" in value):
            personal = True
        elif name in targets:
            aimed.append((name, value))
    forbids, declared, validates = _told(control, aimed, targets) if control or aimed else _NOTHING
    if forbids:
        return "hopeless"
    if not (declared or expires or (validator and (heuristics or validates))):
        return "hopeless" if validates else "undeclared"
    if length > most_bytes:
        return "hopeless"
    return "unsure" if personal else "storable"


def _told(control: bytes, aimed: list[tuple[bytes, bytes]], targets: tuple[bytes, ...]) -> _Said:
    """RFC 9213, 2.2: what the first valid targeted field says, else Cache-Control."""
    for name in targets if aimed else ():
        found = targeted(tuple(aimed), name)
        if found is not None:
            return _meaning(found)
    return _known(control) if len(control) <= _LONGEST else _read(control)


def _read(control: bytes) -> _Said:
    return _meaning(cache_control(((b"cache-control", control),)))


_known = functools.lru_cache(maxsize=256)(_read)


def _meaning(told: Directives) -> _Said:
    unshared = b"private" in told and not told.names(b"private")
    unstored = b"no-store" in told and b"must-understand" not in told
    declared = b"max-age" in told or b"s-maxage" in told or b"public" in told
    return _Said(unshared or unstored, declared, b"no-cache" in told)
