"""The words of a field's name. Field names have no upper case on the wire, so `X-TenantId` arrives as `x-tenantid`."""

from __future__ import annotations

import functools
from collections.abc import Set as AbstractSet

__all__ = ["BESIDE", "words_of"]

BESIDE = frozenset(
    b"""
    access account acting address admin api app auth cart client code current device dn effective email end external
    first forwarded full given family guest guid hash id ids info installation internal key last name no num number
    phone player private ref refresh remote secret server service shop site store subscription type uuid verify visitor
    web
    """.split()
)
"""Words that stand beside those by which a field names its user, or are half of such a pair. Only a part of a name that
consists of known words is split, so `agent`, `request` and `data` are not here: User-Agent and X-Request-Id tell nobody
from another, with or without dashes.
"""
_LONGEST_NAME = 64
"""Bytes. A longer name is nobody's usual one, and a client could make it up to cost time."""
_TO_DASHES = bytes.maketrans(b"_.", b"--")


def words_of(name: bytes, known: AbstractSet[bytes]) -> list[bytes]:
    """The parts between dashes, and those that consist of `known` words word by word: `tenantid` is `tenant`, `id`."""
    parts = name.translate(_TO_DASHES).split(b"-")
    if len(name) > _LONGEST_NAME:
        return parts
    return [word for part in parts for word in _split(part, known)]


def _split(part: bytes, known: AbstractSet[bytes]) -> tuple[bytes, ...]:
    """Into as few words as possible. An `x` may be in front, as in `xuserid`."""
    if part in known:
        return (part,)
    return _fewest(part, known) or (_fewest(part[1:], known) if part[:1] == b"x" else None) or (part,)


def _fewest(part: bytes, known: AbstractSet[bytes]) -> tuple[bytes, ...] | None:
    """None: it does not consist of known words."""
    longest = _longest(frozenset(known))
    # The words up to each position. Each position looks back as far as the longest word.
    best: list[tuple[bytes, ...] | None] = [()]
    for end in range(1, len(part) + 1):
        found = [
            (*before, part[start:end])
            for start in range(max(0, end - longest), end)
            if (before := best[start]) is not None and part[start:end] in known
        ]
        best.append(min(found, key=len, default=None))
    return best[-1] or None


@functools.lru_cache(maxsize=8)
def _longest(known: frozenset[bytes]) -> int:
    return max(map(len, known))
