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
    "resealed",
    "sealed",
    "version_of",
    "versions_in",
]

SIZE = 16
"""Bytes of a version."""
BLANK = bytes(SIZE)
"""Replaces an unknown version. It equals no real version."""

Versions = tuple[bytes, ...]

_MARK = b"\xc1\xc1"
"""Begins a body with versions; their number follows. A stored value alone tells by it whether it has versions.

One byte of 0xC1 is not enough: a codec's own bytes may begin with it (`NAMED` in `values.codec.records`). MessagePack
follows there, which never uses this byte. JSON in UTF-8 cannot contain it, and pickle has no such opcode. So a reader
without tags cannot decode a body with the mark, and a body without it was stored by a writer without tags.
"""
_HEAD = len(_MARK) + 1


def sealed(body: bytes, versions: Sequence[bytes]) -> bytes:
    """The codec's own bytes with these versions in front, whatever the bytes are."""
    return b"".join((_MARK, bytes((len(versions),)), *versions, body))


def resealed(body: bytes, versions: Sequence[bytes]) -> bytes:
    """A sealed body with these versions in place of its own. Raises `ValueError` for any other body."""
    if versions_in(body) is None:
        raise ValueError("only a body with versions can be given others: its codec is not a TaggedCodec")
    return sealed(opened(body), versions)


def opened(body: bytes) -> bytes:
    """The codec's own bytes."""
    return body if versions_in(body) is None else body[_HEAD + SIZE * body[_HEAD - 1] :]


def versions_in(body: bytes) -> Versions | None:
    """The versions that a value carries; None if it was stored without tags."""
    if body[: _HEAD - 1] != _MARK or len(body) < _HEAD or len(body) < _HEAD + SIZE * body[_HEAD - 1]:
        return None
    ends = range(_HEAD + SIZE, _HEAD + SIZE * (body[_HEAD - 1] + 1), SIZE)
    return tuple(body[end - SIZE : end] for end in ends)


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
