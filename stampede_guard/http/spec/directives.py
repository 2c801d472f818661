"""Cache directives: Cache-Control (RFC 9111, 5.2) and targeted fields (RFC 9213).

A Cache-Control that is odd in one place still means what it says in the others. A targeted field is a dictionary of
Structured Fields (RFC 9651, 3.2), which is wholly ignored when any of it is malformed or of a wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stampede_guard.http.spec.fields import combined, members, unquoted
from stampede_guard.http.spec.message import Fields

__all__ = ["MOST_SECONDS", "Directives", "cache_control", "effective", "seconds"]

MOST_SECONDS = 2**31
"""RFC 9111, 1.2.2: what is larger counts as this."""

_DIGITS = re.compile(rb"[0-9]+")
_SECONDS = frozenset(
    {b"max-age", b"s-maxage", b"stale-while-revalidate", b"stale-if-error", b"max-stale", b"min-fresh"}
)


@dataclass(frozen=True, slots=True)
class Directives:
    """By lower-case name; the value is None where there was none. `targeted`: from a targeted field, which replaces
    Cache-Control and Expires."""

    values: Mapping[bytes, bytes | None]
    targeted: bool = False

    def __contains__(self, name: bytes) -> bool:
        return name in self.values

    def __bool__(self) -> bool:
        return bool(self.values)

    def seconds(self, name: bytes) -> int | None:
        """The directive's delta-seconds; None without it; 0 where it is malformed, which reuses least."""
        if name not in self.values:
            return None
        value = seconds(self.values[name])
        return 0 if value is None else value

    def names(self, name: bytes) -> frozenset[bytes]:
        """The field names that a directive lists (`no-cache="a, b"`), lower-case; empty without an argument."""
        listed = self.values.get(name)
        if listed is None:
            return frozenset()
        return frozenset(part.strip().lower() for part in listed.split(b",") if part.strip())


def seconds(text: bytes | None) -> int | None:
    """Delta-seconds (RFC 9111, 1.2.2): digits and nothing else, and at most 2^31."""
    if text is None or _DIGITS.fullmatch(text) is None:
        return None
    digits = text.lstrip(b"0") or b"0"
    # Not all of a number of any length: converting it would take quadratic time.
    return MOST_SECONDS if len(digits) > 10 else min(int(digits), MOST_SECONDS)


def cache_control(fields: Fields, name: bytes = b"cache-control") -> Directives:
    """Directives may stand in any number of lines. Of two with the same name, numbers mean the smaller (RFC 9111,
    4.2.1 lets a cache choose what reuses less), and what lists fields loses its list to one that has none."""
    found: dict[bytes, bytes | None] = {}
    for member in members(fields, name):
        key, equals, value = member.partition(b"=")
        key = key.lower()
        argument = unquoted(value) if equals else None
        found[key] = _stricter(key, found[key], argument) if key in found else argument
    return Directives(found)


def _stricter(name: bytes, one: bytes | None, other: bytes | None) -> bytes | None:
    if name in _SECONDS:
        a, b = seconds(one), seconds(other)
        return None if a is None or b is None else b"%d" % min(a, b)
    return None if one is None or other is None else one + b"," + other


_KEY = re.compile(rb"[a-z*][a-z0-9_\-.*]*")
_ITEM = re.compile(
    rb"(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,3})?)"
    rb'|(?P<text>"(?:[ !#-\[\]-~]|\\["\\])*")'
    rb"|(?P<token>[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*)"
    rb"|(?P<boolean>\?[01])"
    rb"|(?P<bytes>:[A-Za-z0-9+/=]*:)"
)
_BARE = rb"(?:" + re.sub(rb"\?P<[a-z]+>", rb"?:", _ITEM.pattern) + rb")"
_WITH = _BARE + rb"(?:; *[a-z*][a-z0-9_\-.*]*(?:=" + _BARE + rb")?)*"
_INNER_LIST = re.compile(rb"\( *(?:" + _WITH + rb"(?: +" + _WITH + rb")* *)?\)")
"""No directive that is known here has one, but a directive that is not known may."""
_BOOLEANS = frozenset(
    {
        b"no-store",
        b"no-cache",
        b"private",
        b"public",
        b"must-revalidate",
        b"proxy-revalidate",
        b"must-understand",
        b"no-transform",
        b"immutable",
    }
)


def targeted(fields: Fields, name: bytes) -> Directives | None:
    """RFC 9213, 2.1: None where the field is missing, empty or malformed; it is then as if it were not there."""
    text = combined(fields, name)
    if text is None:
        return None
    found: dict[bytes, bytes | None] = {}
    rest = text.strip(b" ")
    while rest:
        key = _KEY.match(rest.lower() if rest[:1].isalpha() else rest)
        if key is None:
            return None
        name_, rest = key[0], rest[key.end() :]
        value: bytes | None = None
        if rest[:2] == b"=(":
            inner = _INNER_LIST.match(rest, 1)
            if inner is None or name_ in _SECONDS or name_ in _BOOLEANS:
                return None
            value, rest = b"", rest[inner.end() :]
        elif rest[:1] == b"=":
            item = _ITEM.match(rest, 1)
            if item is None or not _of_right_type(name_, item):
                return None
            value, rest = _as_argument(item), rest[item.end() :]
            if value == b"?0":
                found.pop(name_, None)
                name_ = b""
            elif value == b"?1":
                value = None
        elif name_ in _SECONDS:
            return None
        rest = _after_parameters(rest)
        if name_:
            found[name_] = value
        rest = rest.lstrip(b" \t")
        if not rest:
            break
        if rest[:1] != b",":
            return None
        rest = rest[1:].lstrip(b" \t")
        if not rest:
            return None
    return Directives(found, targeted=True) if found else None


def _of_right_type(name: bytes, item: re.Match[bytes]) -> bool:
    if name in _SECONDS:
        number = item["number"]
        return number is not None and number.isdigit()
    if name in _BOOLEANS:
        return item["boolean"] is not None or (name in (b"no-cache", b"private") and item["text"] is not None)
    return True


def _as_argument(item: re.Match[bytes]) -> bytes:
    return unquoted(item[0]) if item["text"] is not None else item[0]


_PARAMETER = re.compile(rb"; *[a-z*][a-z0-9_\-.*]*(?:=(?:[^\s,;\"]+|\"(?:[ !#-\[\]-~]|\\[\"\\])*\"))?")


def _after_parameters(rest: bytes) -> bytes:
    while (parameter := _PARAMETER.match(rest)) is not None:
        rest = rest[parameter.end() :]
    return rest


def effective(fields: Fields, targets: Iterable[bytes]) -> Directives:
    """The directives that this cache obeys: of the first targeted field that is there and valid, else Cache-Control's
    (RFC 9213, 2.2)."""
    for name in targets:
        found = targeted(fields, name)
        if found is not None:
            return found
    return cache_control(fields)
