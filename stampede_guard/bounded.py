"""A dictionary bounded by bytes and entries that a flood of names used once does not sweep clean.

The policy is S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, section 4): what is
new waits in a small queue, a tenth of the room, and gets into the main queue only if it was used meanwhile; names that
were put out without a use are remembered for a while, and go straight to the main queue when they come again. A
scanner's random names pass through the small queue and leave the main one alone.

Why not a library: of those for Python, theine (W-TinyLFU) counts entries and not bytes, and starts a thread for each
cache; cachetools weighs, but has no policy that withstands a scan, and moves its entries at every hit. Here a hit is
one `dict.get` and one addition, so it may also be made from other threads.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Bounded", "Item"]

SMALL = 0.1
"""The part of the room for what is new."""
MOST_HITS = 3
MOST_GHOSTS = 8192
"""Names that were put out and are remembered, by their hash; and never more than there are entries."""


class Item:
    """What is kept: `size` in bytes, fixed once it is in. Who uses it adds one to `hits`."""

    __slots__ = ("hits", "in_main", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.hits = 0
        self.in_main = False


I = TypeVar("I", bound=Item)  # noqa: E741


class Bounded(Generic[I]):
    """`items` is for looking only. All changes must come from one thread. `put_out(name)` is told of what had to go."""

    def __init__(
        self,
        *,
        max_bytes: int,
        max_entries: int = sys.maxsize,
        put_out: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.items: dict[str, I] = {}
        self.bytes = 0
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._put_out = put_out
        self._small: OrderedDict[str, I] = OrderedDict()
        self._main: OrderedDict[str, I] = OrderedDict()
        self._small_bytes = 0
        self._ghosts: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self.items)

    def put(self, name: str, item: I) -> None:
        """In the place of what had this name, with its hits; others may have to go, or this one."""
        known = self.items.get(name)
        if item.size > self._max_bytes:
            self.take(name)
            return
        if known is not None:
            item.hits, item.in_main = known.hits, known.in_main
            self._weigh(known, -known.size)
        else:
            item.in_main = hash(name) in self._ghosts
            self._ghosts.pop(hash(name), None)
        self._queue(item)[name] = self.items[name] = item
        self._weigh(item, item.size)
        while self.bytes > self._max_bytes or len(self.items) > self._max_entries:
            self._make_room()

    def take(self, name: str) -> I | None:
        item = self.items.pop(name, None)
        if item is not None:
            del self._queue(item)[name]
            self._weigh(item, -item.size)
        return item

    def clear(self) -> None:
        for held in (self.items, self._small, self._main, self._ghosts):
            held.clear()
        self.bytes = self._small_bytes = 0

    def _queue(self, item: I) -> OrderedDict[str, I]:
        return self._main if item.in_main else self._small

    def _weigh(self, item: I, more: int) -> None:
        self.bytes += more
        if not item.in_main:
            self._small_bytes += more

    def _make_room(self) -> None:
        """One entry goes, or has one chance less. Ends: each round takes a hit away, or an entry."""
        crowded = self._small_bytes > SMALL * self._max_bytes or len(self._small) > SMALL * self._max_entries
        if not self._main or (crowded and self._small):
            name, item = self._small.popitem(last=False)
            self._weigh(item, -item.size)
            if item.hits:
                item.hits, item.in_main = 0, True
                self._main[name] = item
                self._weigh(item, item.size)
                return
            self._remember(name)
        else:
            name, item = self._main.popitem(last=False)
            if item.hits:
                item.hits = min(item.hits, MOST_HITS) - 1
                self._main[name] = item
                return
            self._weigh(item, -item.size)
        del self.items[name]
        self._put_out(name)

    def _remember(self, name: str) -> None:
        self._ghosts[hash(name)] = None
        while len(self._ghosts) > min(MOST_GHOSTS, len(self.items)):
            self._ghosts.popitem(last=False)
