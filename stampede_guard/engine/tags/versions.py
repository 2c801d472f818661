"""Tags at run time: the tags of a call, the check of values against them, and what this process knows of them.

The rules and their reasons are in `core.tags`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stampede_guard.core.entry import Reading
from stampede_guard.core.tags import (
    BLANK,
    SIZE,
    Versions,
    is_current,
    opened,
    sealed,
    version_of,
    versions_in,
)
from stampede_guard.engine.tasks import retrieve
from stampede_guard.engine.told import Told
from stampede_guard.errors import Misuse, StoreError, Undecodable
from stampede_guard.values.codec import Codec

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Run
    from stampede_guard.policy import Policy

__all__ = [
    "LocalTags",
    "TaggedCodec",
    "TaggedRun",
    "VersionsAsked",
    "ensure",
    "is_valid",
    "look",
    "refuse_other_tags",
    "tagged",
    "tags_of",
    "told_of",
]

MOST_MARKS = 1_000


@dataclass(frozen=True, slots=True)
class TaggedRun:
    """A computation whose value is stored under `tags`. These are complete names in the store.

    `told`: the note of the call that brought this computation, if it wants to know how it is served.
    """

    run: Run
    tags: tuple[str, ...]
    told: Told | None = None

    def __call__(self) -> Awaitable[Any]:
        return self.run()


def tagged(run: Run, tags: tuple[str, ...], told: Told | None = None) -> Run:
    return TaggedRun(run, tags, told) if tags or told is not None else run


def tags_of(run: Run) -> tuple[str, ...]:
    return run.tags if type(run) is TaggedRun else ()


def told_of(run: Run) -> Told | None:
    return run.told if type(run) is TaggedRun else None


class TaggedCodec:
    """The codec of values that carry the versions of their tags. A newly encoded value carries none yet."""

    def __init__(self, inner: Codec, templates: Sequence[str] = ()) -> None:
        self.inner = inner
        self._templates = templates
        # Includes the templates: values from before a change of templates lack the versions that are compared now.
        self.fingerprint = f"{inner.fingerprint} tags {list(templates)}" if templates else inner.fingerprint
        self.shareable = inner.shareable

    def around(self, inner: Codec) -> TaggedCodec:
        """The same for values that are encoded in another way."""
        return TaggedCodec(inner, self._templates)

    def encode(self, value: Any) -> bytes:
        return sealed(self.inner.encode(value), ())

    def decode(self, data: bytes) -> Any:
        if versions_in(data) is None:
            raise Undecodable("the stored bytes do not belong to an entry with tags")
        return self.inner.decode(opened(data))


# --- the tags in the store ------------------------------------------------------------------------


def look(runtime: Runtime, name: str, tags: tuple[str, ...]) -> Awaitable[Reading | None]:
    """The stored value of an entry, or None if its tags have changed since. One round trip. Raises `StoreError`."""
    return _look(runtime, name, tags) if tags else runtime.session.read(name)


async def _look(runtime: Runtime, name: str, tags: tuple[str, ...]) -> Reading | None:
    versions = VersionsAsked(runtime, tags)
    reading = await runtime.session.read(name)
    now = await versions.answer()
    # Draw no conclusion from a difference. On another node, the tag may have been read before it changed, and the
    # entry after it was computed again. The following flight finds out.
    return reading if reading is not None and is_current(reading.body, now) else None


class VersionsAsked:
    """The tags' versions at a time after this object is made. Requested with the reads of this turn of the loop."""

    __slots__ = ("_found", "_moment", "_runtime", "_tags")

    def __init__(self, runtime: Runtime, tags: tuple[str, ...], lifetimes: Policy | None = None) -> None:
        """With `lifetimes`, the versions are extended to outlive a value that is stored with them."""
        session = runtime.session
        self._runtime = runtime
        self._tags = tags
        self._moment = runtime.tags.moment
        self._found: asyncio.Future[Any] = (
            asyncio.gather(*map(session.read_tag, tags))
            if lifetimes is None
            else asyncio.gather(*(session.ensure_tag(tag, policy=lifetimes) for tag in tags))
        )
        # Retrieve a possible error: the caller may have been cancelled, or have failed for another reason first.
        self._found.add_done_callback(retrieve)

    async def answer(self) -> list[bytes | None]:
        """The versions, with None for each absent one. Raises `StoreError`."""
        found: list[Reading | bytes | None] = await self._found
        versions = [version_of(one.body) if isinstance(one, Reading) else one for one in found]
        for tag, version in zip(self._tags, versions, strict=True):
            self._runtime.tags.seen(tag, version, asked=self._moment)
        return versions

    async def confirm(self, body: bytes) -> bool:
        """Whether a value surely carries exactly these versions."""
        try:
            return is_current(body, await self.answer())
        except StoreError:
            return False


async def is_valid(runtime: Runtime, tags: tuple[str, ...], reading: Reading) -> bool:
    """Whether a value found still matches its tags. Raises `StoreError`."""
    return not tags or is_current(reading.body, await VersionsAsked(runtime, tags).answer())


async def ensure(runtime: Runtime, tags: tuple[str, ...], policy: Policy) -> Versions:
    """The versions for a value whose computation begins after this. Raises `StoreError`."""
    asked = runtime.tags.moment
    versions = await asyncio.gather(*(runtime.session.ensure_tag(tag, policy=policy) for tag in tags))
    for tag, version in zip(tags, versions, strict=True):
        runtime.tags.seen(tag, version, asked=asked)
    return tuple(versions)


def refuse_other_tags(title: str, these: tuple[str, ...], those: tuple[str, ...]) -> None:
    """Raises `Misuse` if two callers of one entry give different tags."""
    if these != those:
        raise Misuse(
            f"{title}: another caller computes the same entry under other tags, which would make it outdated for this "
            f"caller. Give all calls of one key the same tags, or put the values used in the tags into the key"
        )


# --- the tags as this process knows them ----------------------------------------------------------


@dataclass(slots=True)
class _Mark:
    """`settled`: the moment when the store had applied the invalidation. None before that."""

    version: bytes
    settled: int | None = None


class LocalTags:
    """The tags that this process has invalidated. Older values are not served while the store is away, either.

    A mark holds the version that a value must have. At first this is a random version. Values that are computed without
    the store carry it. Later it is the store's version, from a read that was sent after the store had applied the
    invalidation. `moment` counts the events here, to distinguish such reads from earlier ones. `overflow` is called
    when there are too many marks.
    """

    def __init__(self, overflow: Callable[[], None]) -> None:
        self.moment = 0
        self._overflow = overflow
        self._marks: dict[str, _Mark] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def mark(self, tag: str) -> None:
        self.moment += 1
        if len(self._marks) >= MOST_MARKS and tag not in self._marks:
            self._marks.clear()
            self._overflow()
        self._marks[tag] = _Mark(os.urandom(SIZE))

    def settle(self, tag: str) -> None:
        self.moment += 1
        mark = self._marks.get(tag)
        if mark is not None:
            mark.settled = self.moment

    def seen(self, tag: str, version: bytes | None, *, asked: int) -> None:
        mark = self._marks.get(tag)
        if mark is not None and version is not None and mark.settled is not None and asked >= mark.settled:
            mark.version = version

    def versions(self, tags: tuple[str, ...]) -> Versions:
        """The versions for a value that is computed without the store."""
        return tuple(mark.version if (mark := self._marks.get(tag)) is not None else BLANK for tag in tags)

    def allow(self, tags: tuple[str, ...], body: bytes) -> bool:
        """Whether an earlier value may be served while the store is away."""
        if not any(tag in self._marks for tag in tags):
            return True
        stored = versions_in(body) or ()
        return len(stored) == len(tags) and all(
            tag not in self._marks or self._marks[tag].version == version
            for tag, version in zip(tags, stored, strict=True)
        )
