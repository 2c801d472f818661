"""Which parts of a query do not matter: the field No-Vary-Search (draft-ietf-httpbis-no-vary-search).

A rule is a text: the field in its normal form. The empty rule is that of a response without the field: the whole query
matters, byte by byte.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from stampede_guard.http.spec.fields import combined, has
from stampede_guard.http.spec.message import Fields

__all__ = ["LONGEST_RULE", "MOST_NAMES", "is_unclear", "search_rule", "simplified", "spelled"]

LONGEST_RULE = 4096
"""Bytes of the field."""
MOST_NAMES = 128

_STRING = rb'"(?:[ !#-\[\]-~]|\\["\\])*"'
_BARE = (
    rb"(?:" + _STRING + rb"|[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*|-?[0-9]{1,15}(?:\.[0-9]{1,3})?"
    rb"|\?[01]|:[A-Za-z0-9+/=]*:|@-?[0-9]{1,15}|%\"(?:[ !#$&-~]|%[0-9a-f]{2})*\")"
)
_PARAMETERS = rb"(?:; *[a-z*][a-z0-9_\-.*]*(?:=" + _BARE + rb")?)*"
_INNER_LIST = rb"\( *(?:" + _BARE + _PARAMETERS + rb"(?: +" + _BARE + _PARAMETERS + rb")* *)?\)"
_MEMBER = re.compile(
    rb"(?P<key>[a-z*][a-z0-9_\-.*]*)(?:=(?P<value>" + _BARE + rb"|" + _INNER_LIST + rb"))?" + _PARAMETERS
)
_ITEM = re.compile(rb"(?P<value>" + _BARE + rb")" + _PARAMETERS)
_COMMA = re.compile(rb"[ \t]*,[ \t]*")
_ESCAPED = re.compile(rb'\\(["\\])')


class _Variation(NamedTuple):
    """`names` are the only ones that matter (`excepts`), or the only ones that do not."""

    names: frozenset[str] = frozenset()
    excepts: bool = False
    ordered: bool = True


def search_rule(fields: Fields) -> str:
    """The rule of a response (sections 5.1 and 5.2). A malformed field, or one that is too long, is none.

    Older drafts had `params` without a value. That is invalid: write `except=()` instead.
    """
    if not has(fields, b"no-vary-search"):
        return ""
    text = combined(fields, b"no-vary-search") or b""
    found = _dictionary(text.strip(b" \t")) if len(text) <= LONGEST_RULE else None
    return "" if found is None else _written(found)


def _dictionary(text: bytes) -> _Variation | None:
    """RFC 9651, 4.2.2. Of two entries with one key, the last counts. Each byte is read once."""
    told: dict[bytes, bytes] = {}
    place = 0
    while (member := _MEMBER.match(text, place)) is not None:
        told[member["key"]] = b"?1" if member["value"] is None else member["value"]
        place = member.end()
        if place == len(text):
            return _variation(told)
        comma = _COMMA.match(text, place)
        if comma is None:
            return None
        place = comma.end()
    return None


def _variation(told: dict[bytes, bytes]) -> _Variation | None:
    order = told.get(b"key-order", b"?0")
    listed = told.get(b"params"), told.get(b"except")
    if order not in (b"?0", b"?1") or None not in listed:
        return None
    excepts = listed[1] is not None
    names = _names(listed[1] or listed[0] or b"()")
    if names is None or (not names and not excepts and order == b"?0"):
        return None
    return _Variation(names, excepts, order == b"?0")


def _names(value: bytes) -> frozenset[str] | None:
    """None: it is no inner list of strings. Its names are decoded as those of a query are (section 5.3)."""
    if value[:1] != b"(":
        return None
    found: set[str] = set()
    place = _skip(value, 1)
    while value[place : place + 1] != b")":
        item = _ITEM.match(value, place)
        assert item is not None, "the whole list has matched"
        if item["value"][:1] != b'"' or len(found) == MOST_NAMES:
            return None
        found.add(_text(_decoded(_ESCAPED.sub(rb"\1", item["value"][1:-1]))))
        place = _skip(value, item.end())
    return frozenset(found)


def _skip(value: bytes, place: int) -> int:
    while value[place : place + 1] == b" ":
        place += 1
    return place


def _decoded(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _written(rule: _Variation) -> str:
    names = " ".join(f'"{quote(name, safe="")}"' for name in sorted(rule.names))
    listed = [f"{'except' if rule.excepts else 'params'}=({names})"] if names or rule.excepts else []
    return ", ".join([*([] if rule.ordered else ["key-order"]), *listed])


@functools.lru_cache(maxsize=256)
def _read(rule: str) -> _Variation:
    found = _dictionary(rule.encode("ascii", "replace"))
    return _Variation() if found is None else found


def simplified(query: str, rule: str) -> str:
    """The part of a query that matters, in one form for all that are equivalent under the rule (section 6).

    `query` has the bytes of the request, as text in Latin-1. It is stricter than the draft in three points: values that
    are not UTF-8 are equal only if their bytes are, and a pair always counts if it has a semicolon, or a byte that is
    not ASCII.
    """
    variation = _read(rule)
    pairs = [
        (name, written)
        for name, written in _pairs(query)
        if not (variation.names or variation.excepts)
        or (_text(name) in variation.names) == variation.excepts
        or is_unclear(written)
    ]
    if not variation.ordered:
        pairs.sort(key=lambda pair: pair[0])
    return "&".join(written for _, written in pairs)


def spelled(query: str) -> str:
    """All of a query, in that form."""
    return "&".join(written for _, written in _pairs(query))


def _pairs(query: str) -> list[tuple[bytes, str]]:
    """Names, and how their pairs are written. Of application/x-www-form-urlencoded (URL Standard, 5.1).

    An unclear pair stays as it came. No other pair looks like one.
    """
    found = []
    for part in query.encode("latin-1", "replace").split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            key = _decoded(name)
            plain = f"{quote(key, safe='')}={quote(_decoded(value), safe='')}"
            came = part.decode("latin-1")
            found.append((key, came if is_unclear(came) else plain))
    return found


def is_unclear(pair: str) -> bool:
    """Whether applications read different parameters in it. Some also split at a semicolon, and read one that matters
    in the value of one that does not. And bytes beyond ASCII are read as UTF-8 or as Latin-1: Starlette's `é` is `Ã©`,
    if it is not escaped.
    """
    return ";" in pair or not pair.isascii()
