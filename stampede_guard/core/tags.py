"""Tags: many entries outdated by one write, whatever their number.

A tag is a random version in the store, under a name of its own. A value carries the versions that its tags had before
its computation began. `invalidate_tag` deletes the version; whoever computes next makes a new one. A value whose
versions are not those of now counts as missing. Absent means changed, and versions are compared for equality only:
a tag may live on another node than the entry, and tokens of two nodes say nothing about each other.

Why deleted and not replaced: both change the version, and a deletion is never denied, also out of memory.

Who may have a value: a passenger, if the value's versions were current at some moment after that passenger came. So

* a caller reads the entry and its tags in one go, each after it came;
* a value that was found or heard is held against the tags as they are read afterwards. Then a difference is final:
  no version ever comes back;
* an own value is held against the tags as they are read when it is published, because

  1. A reads the tags, computes. 2. B writes to the database and `invalidate_tag` returns to it. 3. C joins A's flight.
  4. A's value is stored (no fence was raised: nobody knows the entries of a tag), with versions of before 2. It goes to
  those who joined before the computation began, and C asks again for something newer.

* versions are read before the computation, because

  1. A computes and has read the old data. 2. B writes, and invalidates the tag. 3. A reads the tags: its old value
  would carry the new versions, and be served for its whole time.

A tag that is evicted or lost costs one more computation for each of its entries, and never an old value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stampede_guard.core.entry import Entry, Value, prune

__all__ = [
    "BLANK",
    "SIZE",
    "Versions",
    "drop",
    "ensure",
    "is_current",
    "opened",
    "sealed",
    "version_of",
    "versions_in",
]

SIZE = 16
"""Bytes of a version."""
BLANK = bytes(SIZE)
"""Stands for a version that nobody knows. It is nobody's."""

Versions = tuple[bytes, ...]

_MARK = 0xC1
"""MessagePack never uses it, JSON in UTF-8 cannot hold it, pickle has no such opcode: who knows of no tags takes such
bytes for undecodable, and bytes without it were stored by one who knew of none."""


def sealed(body: bytes, versions: Sequence[bytes]) -> bytes:
    """The body with these versions in front, in the place of those that it has already."""
    return b"".join((bytes((_MARK, len(versions))), *versions, opened(body)))


def opened(body: bytes) -> bytes:
    """The codec's own bytes."""
    return body[2 + SIZE * body[1] :] if body[:1] == b"\xc1" and len(body) > 1 else body


def versions_in(body: bytes) -> Versions | None:
    """The versions that a value carries; None if it was stored without tags."""
    if body[:1] != b"\xc1" or len(body) < 2 or len(body) < 2 + SIZE * body[1]:
        return None
    return tuple(body[2 + SIZE * place : 2 + SIZE * (place + 1)] for place in range(body[1]))


def is_current(body: bytes, now: Sequence[bytes | None]) -> bool:
    """Whether a value's tags are as they were before it was computed. `now`: their versions, None for an absent one."""
    return versions_in(body) == tuple(now)


def version_of(body: bytes | None) -> bytes | None:
    """The version that a tag's own value holds."""
    return body if body is not None and len(body) == SIZE else None


def ensure(entry: Entry, version: bytes, *, now_us: int, ms: int) -> tuple[Entry, bytes]:
    """The tag with a version, `version` if it has none, that lives for `ms` milliseconds at least."""
    entry = prune(entry, now_us)
    until = now_us + ms * 1000
    value = entry.value
    if value is not None and version_of(value.body) is not None:
        return replace(entry, value=replace(value, expires_us=max(value.expires_us, until))), value.body
    return replace(entry, value=Value(version, 1, ms, 0, until)), version


def drop(entry: Entry) -> Entry:
    """The tag without a version: it has changed for everybody."""
    return replace(entry, value=None)
