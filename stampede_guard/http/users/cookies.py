"""Single cookies of a request, by their names (RFC 6265, 4.2.1)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stampede_guard.http.spec.fields import lines
from stampede_guard.http.spec.message import Fields

__all__ = ["MOST_COOKIE_BYTES", "Cookies", "read_cookies"]

MOST_COOKIE_BYTES = 16 * 1024
"""Bytes of Cookie that are read. What has more is unclear."""


class Cookies(NamedTuple):
    """`named`: the wanted ones that are there, by name. `others`: whether there is anything else. `places`: in which of
    several lines the named ones are. Some frameworks read the first line only, others the last one or all.
    """

    named: dict[bytes, bytes]
    others: bool
    places: str = ""


def read_cookies(fields: Fields, names: Collection[bytes]) -> Cookies | None:
    """Linear in the fields. Values are without the white space around them.

    None if two readers may see two values: a wanted cookie is there twice, or as a name alone, which some read as an
    empty value. Or a quoted value has no end before its semicolon, as in `a="; user=7"`, or a name begins or ends with
    other white space. Also None for more than 16 KiB.
    """
    named: dict[bytes, bytes] = {}
    places: list[tuple[bytes, int]] = []
    others = False
    size = 0
    given = lines(fields, b"cookie")
    for number, line in enumerate(given):
        size += len(line)
        if size > MOST_COOKIE_BYTES:
            return None
        for pair in line.split(b";"):
            key, equals, value = pair.partition(b"=")
            key, value = key.strip(b" \t"), value.strip(b" \t")
            if value.count(b'"') % 2 or key in named or _is_trimmed(key):
                return None
            if key in names:
                if not equals:
                    return None
                named[key] = value
                places.append((key, number))
            elif key or equals:
                others = True
    told = repr((len(given), sorted(places))) if named and len(given) > 1 else ""
    return Cookies(named, others, told)


def _is_trimmed(name: bytes) -> bool:
    """Whether frameworks, which trim what Unicode calls white space, read another name."""
    text = name.decode("latin-1")
    return text != text.strip()
