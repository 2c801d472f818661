"""The values this process saw last, bounded by bytes: what is served while the store is away."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from stampede_guard.core.entry import Freshness, Reading

__all__ = ["LastValues"]

OVERHEAD = 300
"""Bytes counted for an entry beside its name and body."""


@dataclass(slots=True)
class _Kept:
    """Without a reading it is a tombstone: `fence` is the smallest token that a value may have."""

    reading: Reading | None
    fresh_until: float
    stale_until: float
    size: int
    fence: int = 0


class LastValues:
    """Least recently used values go first. `now` is seconds on a clock that never goes back."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, name: str, reading: Reading, *, now: float) -> None:
        """Remember a value just seen, with the time it has left."""
        known = self._kept.get(name)
        fence = 0
        if known is not None:
            fence = known.fence
            seen = known.reading
            if seen is not None and (seen is reading or seen.token == reading.token > 0):
                self._kept.move_to_end(name)
                return
            # Asked for earlier and answered later. Token 0 is this process's own, which no order is known of.
            if 0 < reading.token < max(fence, seen.token if seen is not None else 0):
                return
            self.drop(name)
        size = len(name) + len(reading.body) + OVERHEAD
        if size > self._max_bytes:
            return
        remaining = max(0, min(reading.remaining_ms, reading.total_ms)) / 1000
        self._put(
            name, _Kept(reading, now + remaining - reading.stale_ms / 1000, now + remaining, size, fence)
        )

    def _put(self, name: str, kept: _Kept) -> None:
        self._take(name)
        self._kept[name] = kept
        self._bytes += kept.size
        while self._bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.size

    def _take(self, name: str) -> _Kept | None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._bytes -= kept.size
        return kept

    def find(self, name: str, *, now: float) -> tuple[Reading | None, Freshness]:
        kept = self._kept.get(name)
        if kept is None or kept.reading is None:
            return None, "missing"
        if now >= kept.stale_until:
            self.drop(name)
            return None, "missing"
        return kept.reading, "fresh" if now < kept.fresh_until else "stale"

    def aged(self, name: str, *, now: float) -> Reading | None:
        """The value as it would be read now: with the time that it has left by now."""
        reading, _ = self.find(name, now=now)
        if reading is None:
            return None
        left = round((self._kept[name].stale_until - now) * 1000)
        return reading._replace(remaining_ms=min(left, reading.remaining_ms))

    def drop(self, name: str, *, fence: int = 0) -> None:
        """Forget a value; and, after an invalidation, refuse those with a token below its fence."""
        kept = self._take(name)
        fence = max(fence, kept.fence if kept is not None else 0)
        if fence:
            self._put(name, _Kept(None, 0.0, 0.0, len(name) + OVERHEAD, fence))

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0
