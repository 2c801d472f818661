"""Header fields: lines, lists, tokens and quoted strings (RFC 9110, 5.3, 5.5 and 5.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stampede_guard.http.spec.message import Fields

__all__ = [
    "HOP_BY_HOP",
    "combined",
    "first",
    "has",
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
"""RFC 9111, 3.1: not stored, whoever lists them."""

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SPACE = b" \t"


def lines(fields: Fields, name: bytes) -> list[bytes]:
    """The values of all lines of this name, without the white space around them."""
    return [value.strip(_SPACE) for key, value in fields if key == name]


def has(fields: Fields, name: bytes) -> bool:
    for key, _ in fields:  # noqa: SIM110 - a generator would cost more than the search
        if key == name:
            return True
    return False


def first(fields: Fields, name: bytes) -> bytes | None:
    return next(iter(lines(fields, name)), None)


def combined(fields: Fields, name: bytes) -> bytes | None:
    """All lines as one, with commas in between (RFC 9110, 5.3); None without any."""
    values = lines(fields, name)
    return b", ".join(values) if values else None


def members(fields: Fields, name: bytes) -> list[bytes]:
    """The members of a list-based field, over all its lines; empty ones are ignored (RFC 9110, 5.6.1)."""
    return [member for line in lines(fields, name) for member in _split(line)]


def _split(line: bytes) -> list[bytes]:
    """At commas, but not at those within quoted strings. An unclosed quote runs to the end."""
    found: list[bytes] = []
    start, quoted, escaped = 0, False, False
    for position, byte in enumerate(line):
        if escaped:
            escaped = False
        elif quoted and byte == 0x5C:
            escaped = True
        elif byte == 0x22:
            quoted = not quoted
        elif byte == 0x2C and not quoted:
            found.append(line[start:position])
            start = position + 1
    found.append(line[start:])
    return [member for part in found if (member := part.strip(_SPACE))]


def token(text: bytes) -> bool:
    return _TOKEN.fullmatch(text) is not None


def unquoted(text: bytes) -> bytes:
    """A quoted string's content; anything else as it is (RFC 9110, 5.6.4)."""
    if len(text) >= 2 and text[:1] == b'"' == text[-1:]:
        return re.sub(rb"\\(.)", rb"\1", text[1:-1], flags=re.DOTALL)
    return text


def without(fields: Fields, names: Iterable[bytes]) -> Fields:
    gone = frozenset(names)
    return tuple(pair for pair in fields if pair[0] not in gone)


def without_hops(fields: Fields) -> Fields:
    """Without what belongs to one connection, also what `Connection` lists (RFC 9110, 7.6.1)."""
    listed = {member.lower() for member in members(fields, b"connection")}
    return without(fields, HOP_BY_HOP | listed)
