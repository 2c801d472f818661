"""Header fields: lines, lists, tokens and quoted strings (RFC 9110, 5.3, 5.5 and 5.6)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from stampede_guard.http.spec.message import Fields

__all__ = [
    "HOP_BY_HOP",
    "combined",
    "first",
    "has",
    "is_of_one_requester",
    "lines",
    "members",
    "token",
    "unquoted",
    "without",
    "without_hops",
]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9111, 3.1: never stored, whether listed or not."""

_OF_ONE_REQUESTER = frozenset(
    {b"authentication-info", b"authorization", b"clear-site-data", b"set-authorization", b"set-login"}
)
_HANDING = frozenset(b"cookie cookie2 csrf csrftoken xsrf jwt nonce otp session sessionid sid bearer".split())
_LONGEST_REMEMBERED = 64
"""Bytes of a name for which its meaning is remembered. A few names occur in all responses."""
_OF_PAGES = (b"continuation", b"cursor", b"next", b"page")
"""A token that names a place in a list is for all readers of the list."""

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SPACE = b" \t"
_MARK = re.compile(rb'[",]')
_QUOTED = re.compile(rb'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*"?', re.DOTALL)
"""A quoted string, or the rest of the line if it is not closed. It matches at every quote."""


def lines(fields: Fields, name: bytes) -> list[bytes]:
    """The values of all lines of this name, without the white space around them."""
    return [value.strip(_SPACE) for key, value in fields if key == name]


def has(fields: Fields, name: bytes) -> bool:
    for key, _ in fields:  # noqa: SIM110 - a generator would cost more than the search
        if key == name:
            return True
    return False


def first(fields: Fields, name: bytes) -> bytes | None:
    for key, value in fields:
        if key == name:
            return value.strip(_SPACE)
    return None


def combined(fields: Fields, name: bytes) -> bytes | None:
    """All lines as one, with commas in between (RFC 9110, 5.3); None without any."""
    values = lines(fields, name)
    return b", ".join(values) if values else None


def members(fields: Fields, name: bytes) -> list[bytes]:
    """The members of a list-based field, over all its lines; empty ones are ignored (RFC 9110, 5.6.1)."""
    if not has(fields, name):
        return []
    return [member for line in lines(fields, name) for member in _split(line)]


def _split(line: bytes) -> list[bytes]:
    """Splits at commas outside quoted strings. An unclosed quote runs to the end.

    Each byte is read once: the time is proportional to the field's length.
    """
    if b'"' not in line:
        found = line.split(b",")
    else:
        found, start, position = [], 0, 0
        while (mark := _MARK.search(line, position)) is not None:
            if mark[0] == b",":
                found.append(line[start : mark.start()])
                start = position = mark.end()
            else:
                position = _QUOTED.match(line, mark.start()).end()  # type: ignore[union-attr]
        found.append(line[start:])
    return [member for part in found if (member := part.strip(_SPACE))]


def is_of_one_requester(name: bytes) -> bool:
    """Whether a response field with this name is for one client: a session, a token, a proof of who was answered.
    `name` is in lower case.
    """
    return _names_one(name) if len(name) <= _LONGEST_REMEMBERED else _names_one.__wrapped__(name)


@functools.lru_cache(maxsize=1024)
def _names_one(name: bytes) -> bool:
    if name in _OF_ONE_REQUESTER:
        return True
    parts = name.replace(b"_", b"-").split(b"-")
    if not _HANDING.isdisjoint(parts):
        return True
    return parts[-1].endswith(b"token") and not any(word in name for word in _OF_PAGES)


def token(text: bytes) -> bool:
    return _TOKEN.fullmatch(text) is not None


def unquoted(text: bytes) -> bytes:
    """A quoted string's content; anything else as it is (RFC 9110, 5.6.4)."""
    if len(text) >= 2 and text[:1] == b'"' == text[-1:]:
        return re.sub(rb"\\(.)", rb"\1", text[1:-1], flags=re.DOTALL)
    return text


def without(fields: Fields, names: Iterable[bytes]) -> Fields:
    gone = names if isinstance(names, frozenset) else frozenset(names)
    return tuple([pair for pair in fields if pair[0] not in gone])


def without_hops(fields: Fields) -> Fields:
    """Without fields for one connection, including those that `Connection` lists (RFC 9110, 7.6.1)."""
    if not has(fields, b"connection"):
        return without(fields, HOP_BY_HOP)
    listed = {member.lower() for member in members(fields, b"connection")}
    return without(fields, HOP_BY_HOP | listed)
