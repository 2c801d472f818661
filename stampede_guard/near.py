"""The near store (L1): values ready to be handed out without a round trip, kept right by messages.

Whoever invalidates an entry, or stores a value in the place of a fresh one, publishes it on the namespace's channel of
changes, in the same script. While this process is subscribed there (`Session.hears_changes`), a copy goes as soon as
its entry's change is heard. Where messages may be missing (a gap), all copies go; while there is no subscription, none
is made. What is left, a connection that is dead and does not say so, is bounded by `l1_ttl`.

A read that is on its way may bring what has been outdated meanwhile:

1. A asks for a value; the store reads it, token 5; the answer is on its way.
2. B invalidates the entry, fence 9. A hears of it; there is no copy to drop.
3. The answer arrives. Kept, it would be served for `l1_ttl`, and no message would come again.

A tag's change is heard like an entry's. A copy of a tagged value is good while none of its tags has changed since its
read was sent: to compare the numbers of two changes costs the same, however many entries the tag has.

So fences are remembered, and a value with a smaller token is not kept. Only so many are: who asked before one was
forgotten keeps nothing.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stampede_guard.bounded import Bounded, Item
from stampede_guard.core.entry import Reading

if TYPE_CHECKING:
    from stampede_guard.plan import Plan

__all__ = ["NOTHING", "Asked", "Kept", "Near"]

OVERHEAD = 500
"""Bytes counted for an entry beside its name and value: what four dictionaries and two objects take."""
DECODED = 8
"""Bytes of Python objects for a byte that was stored. Rows of short texts and numbers take that much."""
MOST_FENCES = 4096

NOTHING: Final[Any] = object()


class Kept(Item):
    """Good until `until`, on the near store's clock. `copy` None: nobody can change `value`, so everybody may have it.

    `shared`: what those get who have said that they may share one object; `NOTHING` until the first of them comes.
    And as long as none of its `tags` has changed since it was asked for, after so many `changes`.
    """

    __slots__ = ("changes", "copy", "shared", "tags", "token", "until", "value")

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
    ) -> None:
        super().__init__(size)
        self.value = value
        self.copy = copy
        self.shared: Any = NOTHING
        self.token = token
        self.until = until
        self.tags = tags
        self.changes = changes

    def given(self, share: bool) -> Any:
        """The value for a caller that may `share` it with others who may."""
        self.hits += 1
        if self.copy is None:
            return self.value
        if not share:
            return self.copy(self.value)
        if self.shared is NOTHING:
            self.shared = self.copy(self.value)
        return self.shared


class Asked(NamedTuple):
    """When a read was sent: after how many gaps and changes, and the time."""

    gaps: int
    changes: int
    at: float


class Near:
    """Of one event loop. `hears(name)`: whether changes of this entry reach `changed`.

    `get`, `find`, `expire` and `expire_tag` may be called from any thread, all else from the event loop's.
    """

    def __init__(self, hears: Callable[[str], bool], *, max_bytes: int, max_entries: int) -> None:
        self.clock = time.monotonic
        self._hears = hears
        self._kept: Bounded[Kept] = Bounded(max_bytes=max_bytes, max_entries=max_entries)
        self.get = self._kept.items.get
        """The hit path writes `find` out."""
        # One reading serves all callers of its tick; to keep it once is enough.
        self._latest: Reading | None = None
        self._gaps = 0
        self._changes = 0
        self._fences: OrderedDict[str, tuple[int, int]] = OrderedDict()
        # The number of the latest change that is no longer among the fences.
        self._forgotten = 0
        # Tags that another thread has changed, until `changed` is told: after how many changes.
        self._expired: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        return self._kept.bytes

    def find(self, name: str, tags: tuple[str, ...] = (), *, share: bool = False) -> Any:
        """The value, or `NOTHING`."""
        kept = self.get(name)
        if kept is None or self.clock() >= kept.until:
            return NOTHING
        if (tags or kept.tags) and (tags != kept.tags or self._has_changed(tags, since=kept.changes)):
            return NOTHING
        return kept.given(share)

    def _has_changed(self, tags: tuple[str, ...], *, since: int) -> bool:
        """Whether one of the tags may have changed since so many changes were heard."""
        nothing = (0, -1)
        return since < self._forgotten or any(
            self._fences.get(tag, nothing)[1] > since or self._expired.get(tag, -1) > since for tag in tags
        )

    def ask(self, name: str, tags: tuple[str, ...] = ()) -> Asked | None:
        """To be called before a read is sent. None: what it brings cannot be kept."""
        if not all(map(self._hears, (name, *tags))):
            return None
        return Asked(self._gaps, self._changes, self.clock())

    def keep(
        self, name: str, reading: Reading, plan: Plan, asked: Asked | None, tags: tuple[str, ...] = ()
    ) -> None:
        """Keep what was read, if it is certain that every change since is known. The value must be fresh."""
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
        # Counted from before the read: an outdated value lives no longer than l1_ttl after it was replaced.
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
            value, copy, token=reading.token, until=until, size=size, tags=tags, changes=asked.changes
        )
        self._kept.put(name, kept)

    def changed(self, name: str, fence: int) -> None:
        """Copies with a token below the fence are outdated, those that are on their way too."""
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

    def drop(self, name: str) -> None:
        self._kept.take(name)
        self._expired.pop(name, None)

    def expire(self, name: str, *, below: int = sys.maxsize) -> None:
        """As good as `drop`, from another thread, for a value with a token below this."""
        kept = self.get(name)
        if kept is not None and kept.token < below:
            kept.until = 0.0

    def expire_tag(self, tag: str) -> None:
        """As good as `changed`, from another thread, until that is told here."""
        self._expired[tag] = self._changes + 1

    def flush(self) -> None:
        """Messages may be missing."""
        self._gaps += 1
        self._kept.clear()
        self._fences.clear()


def _weight(value: Any, body: bytes) -> int:
    return sys.getsizeof(value) if isinstance(value, str | bytes) else DECODED * len(body)
