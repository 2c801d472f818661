"""One cookie of a request, by its name (RFC 6265, 4.2.1)."""

from __future__ import annotations

from stampede_guard.http.spec.fields import lines
from stampede_guard.http.spec.message import Fields

__all__ = ["MOST_COOKIE_BYTES", "cookie"]

MOST_COOKIE_BYTES = 16 * 1024
"""Bytes of Cookie that are read. What has more is unclear."""


def cookie(fields: Fields, name: bytes) -> bytes | None:
    """Its value, without the white space around it; empty without such a cookie. Linear in the fields.

    None if two readers may see two values: the cookie is there twice, or a quoted value has no end before its
    semicolon, as in `a="; user=7"`. Also None for more than 16 KiB.
    """
    found: list[bytes] = []
    size = 0
    for line in lines(fields, b"cookie"):
        size += len(line)
        if size > MOST_COOKIE_BYTES:
            return None
        for pair in line.split(b";"):
            key, equals, value = pair.partition(b"=")
            value = value.strip(b" \t")
            if value.count(b'"') % 2:
                return None
            if equals and key.strip(b" \t") == name:
                found.append(value)
    if len(found) > 1:
        return None
    return found[0] if found else b""
