"""Cache directives: Cache-Control (RFC 9111, 5.2) and targeted fields (RFC 9213).

A Cache-Control with one malformed directive keeps its other directives. A targeted field is a dictionary of
Structured Fields (RFC 9651, 3.2). It is ignored completely if any part of it is malformed or has a wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stampede_guard.http.spec.fields import combined, members, token, unquoted
from stampede_guard.http.spec.message import Fields

__all__ = ["MOST_SECONDS", "Directives", "cache_control", "effective", "seconds"]

MOST_SECONDS = 2**31
"""RFC 9111, 1.2.2: larger numbers count as this one."""

_DIGITS = re.compile(rb"[0-9]+")
_DIRECTIVE = re.compile(
    rb"""[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]*|"(?:[^"\\]|\\.)*"))?""", re.DOTALL
)
_IN_TOKENS = rb"!#$%&'*+\-.^_`|~0-9A-Za-z"
_LIMIT = re.compile(
    rb"(?<![=" + _IN_TOKENS + rb"])"
    rb"(?:no-store|no-cache|private|must-revalidate|proxy-revalidate|s-maxage|max-age)(?!["
    + _IN_TOKENS
    + rb"])"
)
_QUOTED = re.compile(rb'=[ \t]*"(?:[^"\\]|\\.)*"', re.DOTALL)
"""An argument. What stands in quotes in the place of a directive may be one."""
_LISTS = frozenset({b"no-cache", b"private"})
"""Directives that may list field names."""
_NO_NAMES = frozenset(b"* 0 1 false no none null off on true yes".split())
"""What programs write as a list that want the directive itself, or none."""
_SECONDS = frozenset(
    {b"max-age", b"s-maxage", b"stale-while-revalidate", b"stale-if-error", b"max-stale", b"min-fresh"}
)


@dataclass(frozen=True, slots=True)
class Directives:
    """By lower-case name; the value is None if there was none. `targeted`: from a targeted field, which replaces
    Cache-Control and Expires.
    """

    values: Mapping[bytes, bytes | None]
    targeted: bool = False

    def __contains__(self, name: bytes) -> bool:
        return name in self.values

    def __bool__(self) -> bool:
        return bool(self.values)

    def seconds(self, name: bytes) -> int | None:
        """The directive's delta-seconds; None without it; 0 if it is malformed, which reuses least."""
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
    """Delta-seconds (RFC 9111, 1.2.2): digits only, and at most 2^31."""
    if text is None or _DIGITS.fullmatch(text) is None:
        return None
    digits = text.lstrip(b"0") or b"0"
    # Do not convert a number of any length: that would take quadratic time.
    return MOST_SECONDS if len(digits) > 10 else min(int(digits), MOST_SECONDS)


def cache_control(fields: Fields, name: bytes = b"cache-control") -> Directives:
    """Directives may be in any number of lines. If two have the same name, the smaller number counts (RFC 9111,
    4.2.1 lets a cache choose what reuses less), and a list of fields loses to a directive without a list.
    Directives that no such cache obeys are dropped: a response may have any number of them.

    Semicolons or blanks between directives (`max-age=60; private`) are a frequent mistake, as are quotes and foreign
    blanks around them. Then the directives that forbid something still count, without their arguments, and the others
    do not.
    """
    found: dict[bytes, bytes | None] = {}
    listed: dict[bytes, list[bytes]] = {}
    for member in members(fields, name):
        if _DIRECTIVE.fullmatch(member) is None:
            for word in _LIMIT.findall(_QUOTED.sub(b"", member.lower())):
                found[word] = None
                listed.pop(word, None)
            continue
        key, equals, value = member.partition(b"=")
        key = key.lower()
        if key not in _KNOWN:
            continue
        argument = unquoted(value) if equals else None
        if key in _LISTS and not (value[:1] == b'"' and _names_fields(argument)):
            argument = None
        if key in _LISTS and argument is not None and found.get(key, b"") is not None:
            listed.setdefault(key, []).append(argument)
            found[key] = b""
        elif key in found and key in _SECONDS:
            found[key] = _smaller(found[key], argument)
        else:
            found[key] = None if key in found else argument
            listed.pop(key, None)
    # Joined once, at the end: otherwise a growing list would be copied for each member.
    return Directives({**found, **{key: b",".join(parts) for key, parts in listed.items()}})


def _names_fields(argument: bytes | None) -> bool:
    """RFC 9111, 5.2.2.4 and 5.2.2.7: a list of fields is in quotes, and a cache may treat it as if there were none.
    `private=1`, as Django's `patch_cache_control(private=1)` writes it, means the whole response.
    """
    names = [name.strip(b" \t").lower() for name in (argument or b"").split(b",")]
    return all(token(name) and name not in _NO_NAMES for name in names if name) and any(names)


def _smaller(one: bytes | None, other: bytes | None) -> bytes | None:
    a, b = seconds(one), seconds(other)
    return None if a is None or b is None else b"%d" % min(a, b)


_KEY = re.compile(rb"[A-Za-z*][A-Za-z0-9_\-.*]*")
_ITEM = re.compile(
    rb"(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,3})?)"
    rb'|(?P<text>"(?:[ !#-\[\]-~]|\\["\\])*")'
    rb"|(?P<token>[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*)"
    rb"|(?P<boolean>\?[01])"
    rb"|(?P<bytes>:[A-Za-z0-9+/=]*:)"
    rb'|(?P<other>@-?[0-9]{1,15}|%"(?:[ !#$&-~]|%[0-9a-f]{2})*")'
)
_BARE = rb"(?:" + re.sub(rb"\?P<[a-z]+>", rb"?:", _ITEM.pattern) + rb")"
_WITH = _BARE + rb"(?:; *[a-z*][a-z0-9_\-.*]*(?:=" + _BARE + rb")?)*"
_INNER_LIST = re.compile(rb"\( *(?:" + _WITH + rb"(?: +" + _WITH + rb")* *)?\)")
"""No known directive has one, but an unknown directive may."""
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
        b"only-if-cached",
    }
)
_KNOWN = _SECONDS | _BOOLEANS


_SPACES = re.compile(rb"[ \t]*")


def targeted(fields: Fields, name: bytes) -> Directives | None:
    """RFC 9213, 2.1: None if the field is missing, empty or malformed; it then counts as missing."""
    text = combined(fields, name)
    if text is None:
        return None
    text = text.strip(b" ")
    found: dict[bytes, bytes | None] = {}
    place, end = 0, len(text)
    while place < end:
        read = _member(text, place)
        if read is None:
            return None
        key, value, place = read
        if value == b"?0":
            found.pop(key, None)
        elif key in _KNOWN:
            bare = value == b"?1" or (key in _LISTS and not _names_fields(value))
            found[key] = None if bare else value
        place = _SPACES.match(text, _after_parameters(text, place)).end()  # type: ignore[union-attr]
        if place == end:
            return Directives(found, targeted=True)
        if text[place : place + 1] != b",":
            return None
        place = _SPACES.match(text, place + 1).end()  # type: ignore[union-attr]
    # Empty, or a comma at the end.
    return None


def _member(text: bytes, place: int) -> tuple[bytes, bytes | None, int] | None:
    """Name, value and end position. The text is never copied: a field of any length is read once."""
    key = _KEY.match(text, place)
    if key is None:
        return None
    name, place = key[0].lower(), key.end()
    if text[place : place + 2] == b"=(":
        inner = _INNER_LIST.match(text, place + 1)
        if inner is None or name in _SECONDS or name in _BOOLEANS:
            return None
        return name, b"", inner.end()
    if text[place : place + 1] == b"=":
        item = _ITEM.match(text, place + 1)
        if item is None or not _of_right_type(name, item):
            return None
        return name, _as_argument(item), item.end()
    return None if name in _SECONDS else (name, None, place)


def _of_right_type(name: bytes, item: re.Match[bytes]) -> bool:
    if name in _SECONDS:
        number = item["number"]
        return number is not None and number.isdigit()
    if name in _BOOLEANS:
        return item["boolean"] is not None or (name in (b"no-cache", b"private") and item["text"] is not None)
    return True


def _as_argument(item: re.Match[bytes]) -> bytes:
    return unquoted(item[0]) if item["text"] is not None else item[0]


_PARAMETER = re.compile(
    rb'; *[a-z*][a-z0-9_\-.*]*(?:=(?:%"[ !#-~]*"|[^\s,;"]+|"(?:[ !#-\[\]-~]|\\["\\])*"))?'
)


def _after_parameters(text: bytes, place: int) -> int:
    while (parameter := _PARAMETER.match(text, place)) is not None:
        place = parameter.end()
    return place


def effective(fields: Fields, targets: Iterable[bytes]) -> Directives:
    """The directives that this cache obeys: those of the first valid targeted field, else Cache-Control's (RFC
    9213, 2.2).
    """
    for name in targets:
        found = targeted(fields, name)
        if found is not None:
            return found
    return cache_control(fields)
