"""L1, the near store: values that are served without a round trip. Messages keep them up to date.

An invalidation publishes its entry on the namespace's channel of changes, in the same script. So does a publication
that replaces a fresh value. While this process is subscribed there (`Session.hears_changes`), a copy is dropped as soon
as the message about its entry arrives. If messages may be missing (a gap), all copies are dropped. Without a
subscription no copy is made. One case remains: a dead connection that shows no error. `l1_ttl` is the limit for it.

A read in progress may bring a value that has become outdated:

1. A asks for a value. The store reads it with token 5, and the answer is on its way.
2. B invalidates the entry, fence 9. A receives the message and has no copy to drop.
3. The answer arrives. If A kept it, A would serve it for `l1_ttl`, and no further message would come.

So fences are remembered, and a value with a smaller token is not kept. The number of remembered fences is limited. A
read that was sent before one of them was forgotten is not kept.

A tag's change arrives in the same way. A copy of a tagged value is valid if none of its tags has changed since its read
was sent. This compares the numbers of two changes, so the cost does not depend on how many entries the tag has.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stampede_guard.core.entry import Reading
from stampede_guard.engine.told import age_of
from stampede_guard.values.s3fifo import Bounded, Item

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Plan

__all__ = ["NOTHING", "Asked", "Kept", "L1"]

OVERHEAD = 500
"""Bytes counted for an entry in addition to its name and value: the cost of four dictionaries and two objects."""
DECODED = 8
"""Bytes of Python objects per stored byte. This is typical for rows of short texts and numbers."""
STEP = 4096
"""A change of fewer bytes is not reported, nor one of less than a sixteenth."""
MOST_FENCES = 4096

NOTHING: Final[Any] = object()


class Kept(Item):
    """Valid until `until`, on the near store's clock. `copy` None: `value` is immutable, so all callers may share it.

    `shared`: the one object for callers with `share=True`; `NOTHING` until the first of them comes. A copy with `tags`
    is valid only while no tag changes after its read was sent. `changes` is the number of changes at that time. `born`:
    when the value was stored, on the same clock.
    """

    __slots__ = ("born", "changes", "copy", "shared", "tags", "token", "until", "value")

    def __init__(
        self,
        value: Any,
        copy: Callable[[Any], Any] | None,
        *,
        token: int,
        until: float,
        size: int,
        tags: tuple[str, ...] = (),
        changes: int = 0,
        born: float = 0.0,
    ) -> None:
        super().__init__(size)
        self.born = born
        self.value = value
        self.copy = copy
        self.shared: Any = NOTHING
        self.token = token
        self.until = until
        self.tags = tags
        self.changes = changes

    def given(self, share: bool) -> Any:
        """The value for one caller. With `share`, it may be the same object as for others that share."""
        self.hits += 1
        if self.copy is None:
            return self.value
        if not share:
            return self.copy(self.value)
        if self.shared is NOTHING:
            self.shared = self.copy(self.value)
        return self.shared


class Asked(NamedTuple):
    """The time at which a read was sent, with the number of gaps and changes until then."""

    gaps: int
    changes: int
    at: float


class L1:
    """The near store of one event loop. `hears(name)`: whether changes of this entry reach `changed`.

    `get`, `find`, `expire` and `expire_tag` may be called from any thread. The other methods belong to the event loop.
    """

    def __init__(self, hears: Callable[[str], bool], *, max_bytes: int, max_entries: int) -> None:
        self.clock = time.monotonic
        self.on_size: Callable[[int, int], bool] = lambda size, change: False
        """Receives the bytes of all copies, and the change. Returns whether a hook has received it."""
        self._told = 0
        self._hears = hears
        self._kept: Bounded[Kept] = Bounded(max_bytes=max_bytes, max_entries=max_entries)
        self.get = self._kept.items.get
        """The hit path repeats the code of `find` with it."""
        # One reading serves all callers of its tick. It needs to be kept only once.
        self._latest: Reading | None = None
        self._gaps = 0
        self._changes = 0
        self._was_asked = False
        self._fences: OrderedDict[str, tuple[int, int]] = OrderedDict()
        # The number of the latest change whose fence was forgotten.
        self._forgotten = 0
        # Tags that another thread has changed, until `changed` is called: the number of the change.
        self._expired: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        return self._kept.bytes

    def _sized(self) -> None:
        size = self._kept.bytes
        change = size - self._told
        if (abs(change) >= max(STEP, self._told >> 4) or (change and not size)) and self.on_size(
            size, change
        ):
            self._told = size

    def find(self, name: str, tags: tuple[str, ...] = (), *, share: bool = False) -> Any:
        """The value, or `NOTHING`."""
        kept = self.get(name)
        if kept is None or self.clock() >= kept.until:
            return NOTHING
        if (tags or kept.tags) and (tags != kept.tags or self._has_changed(tags, since=kept.changes)):
            return NOTHING
        return kept.given(share)

    def _has_changed(self, tags: tuple[str, ...], *, since: int) -> bool:
        """Whether one of the tags may have changed after the change with number `since`."""
        nothing = (0, -1)
        return since < self._forgotten or any(
            self._fences.get(tag, nothing)[1] > since or self._expired.get(tag, -1) > since for tag in tags
        )

    def ask(self, name: str, tags: tuple[str, ...] = ()) -> Asked | None:
        """Call this before a read is sent. None: its value cannot be kept."""
        if not all(map(self._hears, (name, *tags))):
            return None
        self._was_asked = True
        return Asked(self._gaps, self._changes, self.clock())

    def keep(
        self, name: str, reading: Reading, plan: Plan, asked: Asked | None, tags: tuple[str, ...] = ()
    ) -> None:
        """Keep a reading if every change since its read was sent is known. The value must be fresh."""
        if (
            reading is self._latest
            or asked is None
            or asked.gaps != self._gaps
            or asked.changes < self._forgotten
        ):
            return
        fence, _ = self._fences.get(name, (0, 0))
        if reading.token < fence or not self._hears(name):
            return
        if tags and (self._has_changed(tags, since=asked.changes) or not all(map(self._hears, tags))):
            return
        # Counted from before the read: an outdated value lives at most l1_ttl after it was replaced.
        until = asked.at + min(plan.policy.l1_ttl, (reading.remaining_ms - reading.stale_ms) / 1000)
        known = self.get(name)
        if known is not None and (reading.token < known.token or (until <= known.until and not tags)):
            return
        if known is not None:
            known.hits += 1
        self._latest = reading
        value, copy = plan.for_many(reading.body)
        size = OVERHEAD + len(name) + _weight(value, reading.body)
        kept = Kept(
            value,
            copy,
            token=reading.token,
            until=until,
            size=size,
            tags=tags,
            changes=asked.changes,
            born=asked.at - age_of(reading),
        )
        self._kept.put(name, kept)
        self._sized()

    def age(self, name: str) -> float:
        """Seconds since the value of the copy was stored."""
        kept = self.get(name)
        return 0.0 if kept is None else max(0.0, self.clock() - kept.born)

    def changed(self, name: str, fence: int) -> None:
        """Copies with a token below the fence are outdated, also those that are on their way."""
        if not self._was_asked:
            # Nothing is kept or on its way, and every later read is sent after this change.
            self._expired.pop(name, None)
            return
        self._changes += 1
        before, _ = self._fences.get(name, (0, 0))
        self._fences[name] = (max(fence, before), self._changes)
        self._fences.move_to_end(name)
        self._expired.pop(name, None)
        if len(self._fences) > MOST_FENCES:
            _, (_, self._forgotten) = self._fences.popitem(last=False)
        kept = self.get(name)
        if kept is not None and kept.token < fence:
            self._kept.take(name)
            self._sized()

    def drop(self, name: str) -> None:
        self._kept.take(name)
        self._expired.pop(name, None)
        self._sized()

    def expire(self, name: str, *, below: int = sys.maxsize) -> None:
        """Has the effect of `drop`, from another thread, for a value with a token below this."""
        kept = self.get(name)
        if kept is not None and kept.token < below:
            kept.until = 0.0

    def expire_tag(self, tag: str) -> None:
        """Has the effect of `changed`, from another thread, until `changed` is called here."""
        self._expired[tag] = self._changes + 1

    def flush(self) -> None:
        """Call this when messages may be missing."""
        self._gaps += 1
        self._kept.clear()
        self._fences.clear()
        self._sized()


def _weight(value: Any, body: bytes) -> int:
    return sys.getsizeof(value) if isinstance(value, str | bytes) else DECODED * len(body)
