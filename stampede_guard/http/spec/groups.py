"""Groups of stored responses: `Cache-Groups` and `Cache-Group-Invalidation` (RFC 9875), and two older names."""

from __future__ import annotations

import re

from stampede_guard.http.spec.fields import combined, has, lines
from stampede_guard.http.spec.invalidation import is_safe
from stampede_guard.http.spec.message import Fields, Response

__all__ = ["ALIASES", "LONGEST_GROUP", "MOST_GROUPS", "groups_of", "invalidated_groups", "strings"]

ALIASES = frozenset({b"surrogate-key", b"cache-tag"})
"""What CDNs call it: names with spaces between them, and names with commas between them."""
MOST_GROUPS = 64
"""RFC 9875, 2, asks for 32 at least."""
LONGEST_GROUP = 1024
"""Characters. RFC 9875, 2, asks for 32 at least."""

_BARE = rb'(?:%?"(?:[ !#-\[\]-~]|\\["\\])*"|[-?:@A-Za-z0-9*][!#$%&\'*+\-.^_`|~0-9A-Za-z:/=]*)'
_MEMBER = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\])*)"(?:; *[a-z*][a-z0-9_\-.*]*(?:=' + _BARE + rb")?)*[ \t]*")
_COMMA = re.compile(rb",[ \t]*")
_ESCAPED = re.compile(rb'\\(["\\])')


def strings(fields: Fields, name: bytes) -> tuple[str, ...] | None:
    """A list of strings, with parameters that mean nothing here (RFC 9651, 4.2.1); each once.

    None: it is malformed, or has a member of another type. Each byte is read once.
    """
    text = combined(fields, name)
    if text is None or not (text := text.strip(b" \t")):
        return ()
    found: dict[str, None] = {}
    place = 0
    while (member := _MEMBER.match(text, place)) is not None:
        found[_ESCAPED.sub(rb"\1", member[1]).decode("ascii")] = None
        place = member.end()
        if place == len(text):
            return tuple(found)
        comma = _COMMA.match(text, place)
        if comma is None:
            return None
        place = comma.end()
    return None


def groups_of(fields: Fields) -> tuple[str, ...] | None:
    """The groups that a response belongs to (RFC 9875, 2), also by the older names.

    None: they are malformed, too long or too many. An invalidation could not reach such a response, so it must not be
    stored.
    """
    groups = strings(fields, b"cache-groups") if has(fields, b"cache-groups") else ()
    if groups is None:
        return None
    keys = [key for line in lines(fields, b"surrogate-key") for key in line.split()]
    keys += [tag.strip(b" \t") for line in lines(fields, b"cache-tag") for tag in line.split(b",")]
    found = dict.fromkeys([*groups, *(key.decode("latin-1") for key in keys if key)])
    if len(found) > MOST_GROUPS or any(len(group) > LONGEST_GROUP for group in found):
        return None
    return tuple(found)


def invalidated_groups(method: str, response: Response) -> tuple[str, ...]:
    """RFC 9875, 3: the groups whose stored responses must not be used again. None for a safe method, or after an error
    (RFC 9111, 4.4). A malformed list counts as missing (RFC 9651, 4.2).
    """
    if is_safe(method) or not 200 <= response.status < 400:
        return ()
    return strings(response.fields, b"cache-group-invalidation") or ()
