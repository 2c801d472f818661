"""The values that this process saw last, bounded by bytes. They are served while the store is away.

They are kept apart from the near store (`l1`), though both are bounded in the same way. The near store is emptied
when the subscription is lost, and just then these values are needed. Also, the near store keeps values that are ready
to hand out, and this one keeps bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from stampede_guard.core.entry import Freshness, Reading
from stampede_guard.values.s3fifo import Bounded, Item

__all__ = ["LastSeen", "Proof"]

OVERHEAD = 500
"""Bytes that are counted for an entry in addition to its name and body."""


class Proof(NamedTuple):
    """What the store knew of an entry's invalidations before a value was computed. It counts until `until`."""

    until: float
    facts: tuple[object, ...]


class _Kept(Item):
    """One entry. Without a reading it is a tombstone. `fence` is the smallest token that a value may have."""

    __slots__ = ("fence", "fresh_until", "proof", "reading", "stale_until")

    def __init__(
        self, reading: Reading | None, fresh_until: float, stale_until: float, size: int, fence: int = 0
    ) -> None:
        super().__init__(size)
        self.reading = reading
        self.fresh_until = fresh_until
        self.stale_until = stale_until
        self.fence = fence
        self.proof: Proof | None = None


class LastSeen:
    """Values that were seen only once are evicted first. `now` is in seconds, on a clock that never goes back."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: Bounded[_Kept] = Bounded(max_bytes=max_bytes)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        return self._kept.bytes

    def has_seen(self, name: str, reading: Reading) -> bool:
        """Whether this very value is known already, as for most hits. Then there is nothing to `keep`."""
        known = self._kept.items.get(name)
        if known is None or (seen := known.reading) is None:
            return False
        if seen is reading or seen.token == reading.token > 0:
            known.hits += 1
            return True
        return False

    def keep(self, name: str, reading: Reading, *, now: float, proof: Proof | None = None) -> None:
        """Remember a value that was not seen before, with the time it has left. `proof`: computed in this process."""
        known = self._kept.items.get(name)
        fence = 0
        if known is not None:
            known.hits += 1
            fence = known.fence
            seen = known.reading
            # An older read was answered later. Token 0 is this process's own value, which has no known order.
            if 0 < reading.token < max(fence, seen.token if seen is not None else 0):
                return
        size = len(name) + len(reading.body) + OVERHEAD
        if size > self._max_bytes:
            self.drop(name)
            return
        remaining = max(0, min(reading.remaining_ms, reading.total_ms)) / 1000
        kept = _Kept(reading, now + remaining - reading.stale_ms / 1000, now + remaining, size, fence)
        kept.proof = proof
        self._kept.put(name, kept)

    def find(self, name: str, *, now: float) -> tuple[Reading | None, Freshness]:
        kept = self._kept.items.get(name)
        if kept is None or kept.reading is None:
            return None, "missing"
        if now >= kept.stale_until:
            self.drop(name)
            return None, "missing"
        kept.hits += 1
        return kept.reading, "fresh" if now < kept.fresh_until else "stale"

    def own(self, name: str, proof: Proof, *, now: float) -> Reading | None:
        """A fresh value that this process has computed without the store, under the same proof. Else None."""
        reading, state = self.find(name, now=now)
        if reading is None or reading.token or state != "fresh":
            return None
        known = self._kept.items[name].proof
        return reading if known is not None and now < known.until and known.facts == proof.facts else None

    def aged(self, name: str, *, now: float) -> Reading | None:
        """The value as the store would return it now, with the time that it has left by now."""
        reading, _ = self.find(name, now=now)
        if reading is None:
            return None
        left = round((self._kept.items[name].stale_until - now) * 1000)
        return reading._replace(remaining_ms=min(left, reading.remaining_ms))

    def drop(self, name: str, *, fence: int = 0) -> None:
        """Forget a value. After an invalidation, also refuse values with a token below its fence."""
        known = self._kept.items.get(name)
        fence = max(fence, known.fence if known is not None else 0)
        if fence:
            self._kept.put(name, _Kept(None, 0.0, 0.0, len(name) + OVERHEAD, fence))
        else:
            self._kept.take(name)

    def outdate(self, name: str, *, fence: int) -> None:
        """If the token of the known value is below `fence`, forget it: the store has a newer one, or has dropped it."""
        known = self._kept.items.get(name)
        if known is not None and known.reading is not None and known.reading.token < fence:
            self.drop(name, fence=fence)

    def missing(self, name: str) -> None:
        """The store has answered that it has no value. So forget a value that was seen there before.

        A value that this process has computed without the store (token 0) stays: it was never there.
        """
        known = self._kept.items.get(name)
        if known is not None and known.reading is not None and known.reading.token:
            self.drop(name)

    def clear(self) -> None:
        self._kept.clear()
