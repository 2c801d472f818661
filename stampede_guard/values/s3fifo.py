"""A dictionary bounded by bytes and entries. A flood of names that are used once does not push out the others.

The policy is S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, section 4). A new item
enters a small queue, which has a tenth of the room. It moves on to the main queue only if it was used in the small one.
Names that were evicted without a use are remembered for a while. If such a name comes again, its item goes straight to
the main queue. So a scanner's random names pass through the small queue and leave the main queue alone.

Why not a library? theine (W-TinyLFU) counts entries and not bytes, and starts a thread for each cache. cachetools
weighs items, but none of its policies withstands a scan, and it moves an entry at every hit. Here a hit is one
`dict.get` and one addition, so other threads may make it too.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Bounded", "Item"]

SMALL = 0.1
"""The share of the room that new items have."""
MOST_HITS = 3
MOST_GHOSTS = 8192
"""The most evicted names that are remembered, by their hash. There are also never more of them than entries."""


class Item:
    """What is kept. `size` is in bytes and fixed once the item is in. A reader that uses an item adds 1 to `hits`."""

    __slots__ = ("hits", "in_main", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.hits = 0
        self.in_main = False


I = TypeVar("I", bound=Item)  # noqa: E741


class Bounded(Generic[I]):
    """Only read `items`. All changes must come from one thread. `put_out(name)` is called for each evicted name."""

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
        """Put an item in. It replaces the item of this name and keeps its hits. Others may be evicted, or this one."""
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
        """Evict one entry, or take hits away from one. Each round does one of the two, so the rounds come to an end."""
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
