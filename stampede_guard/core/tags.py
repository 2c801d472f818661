"""Tags: one write invalidates many entries, whatever their number.

A tag is a random version in the store, under its own name. A value carries the versions that its tags had before
its computation began. `invalidate_tag` deletes the version, and the next computation creates a new one. A value
whose versions are not the current ones counts as missing. A missing version means "changed", and versions are
compared for equality only: a tag may be on another node than the entry, and tokens of two nodes cannot be compared.

Why the version is deleted and not replaced: both change it, and a deletion is never denied, even out of memory.

Which passengers may have a value: those that came before some moment at which the value's versions were current. So

* a caller reads the entry and its tags together, after it came;
* a value that was found or arrived in a message is compared with the tags as they are read afterwards. A difference
  is then final, because no version ever comes back;
* an own value is compared with the tags as they are read when it is published, because

  1. A reads the tags, computes. 2. B writes to the database and `invalidate_tag` returns to it. 3. C joins A's flight.
  4. A's value is stored (no fence was raised, because the entries of a tag are not known), with versions
  from before 2. It goes to passengers that joined before the computation began, and C asks again for something newer.

* versions are read before the computation, because

  1. A computes and has read the old data. 2. B writes, and invalidates the tag. 3. A reads the tags: its old value
  would carry the new versions, and would be served for its whole lifetime.

A tag that is evicted or lost costs one more computation for each of its entries, but never serves an old value.
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
"""Replaces an unknown version. It equals no real version."""

Versions = tuple[bytes, ...]

_MARK = 0xC1
"""MessagePack never uses it, JSON in UTF-8 cannot contain it, and pickle has no such opcode. So a reader without
tags cannot decode such bytes, and bytes without the mark were stored by a writer without tags.
"""


def sealed(body: bytes, versions: Sequence[bytes]) -> bytes:
    """The body with these versions in front. They replace versions that it already has."""
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
    """Whether a value's tags are the same as before its computation. `now`: their versions, None for a missing one."""
    return versions_in(body) == tuple(now)


def version_of(body: bytes | None) -> bytes | None:
    """The version in a tag's own value."""
    return body if body is not None and len(body) == SIZE else None


def ensure(entry: Entry, version: bytes, *, now_us: int, ms: int) -> tuple[Entry, bytes]:
    """The tag with a version that lives for at least `ms` milliseconds: its own, or `version` if it has none."""
    entry = prune(entry, now_us)
    until = now_us + ms * 1000
    value = entry.value
    if value is not None and version_of(value.body) is not None:
        return replace(entry, value=replace(value, expires_us=max(value.expires_us, until))), value.body
    return replace(entry, value=Value(version, 1, ms, 0, until)), version


def drop(entry: Entry) -> Entry:
    """The tag without a version: it has changed for all readers."""
    return replace(entry, value=None)
