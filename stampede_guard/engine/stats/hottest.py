"""The entries that are asked for most, in memory of fixed size.

Space-Saving (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams",
ICDT 2005, figure 1). With `size` counters and N calls, a count is too high by at most N / size. Each entry with more
calls than that has a counter.
"""

from __future__ import annotations

import heapq

__all__ = ["Hottest"]


class Hottest:
    """`add` is called for each call, so it is short: the counter with the least calls is found in a heap.

    The heap holds a lower bound of each count. A bound that has become too low is renewed when it comes to the top.
    """

    def __init__(self, size: int = 128) -> None:
        self._size = size
        self._counts: dict[tuple[str, str], int] = {}
        self._bounds: list[tuple[int, tuple[str, str]]] = []
        self.calls = 0

    def add(self, function: str, entry: str) -> None:
        """One call of this entry."""
        self.calls += 1
        what = function, entry
        counts = self._counts
        known = counts.get(what)
        if known is not None:
            counts[what] = known + 1
            return
        count = 1
        if len(counts) >= self._size:
            count += self._drop_least()
        counts[what] = count
        heapq.heappush(self._bounds, (count, what))

    def _drop_least(self) -> int:
        while True:
            bound, what = self._bounds[0]
            count = self._counts[what]
            if count == bound:
                heapq.heappop(self._bounds)
                del self._counts[what]
                return count
            heapq.heapreplace(self._bounds, (count, what))

    def top(self, most: int) -> list[tuple[str, str, int]]:
        """Function, entry and calls of those with the most calls."""
        found = heapq.nlargest(most, self._counts.items(), key=lambda item: (item[1], item[0]))
        return [(function, entry, count) for (function, entry), count in found]

    @property
    def error(self) -> int:
        """The most by which a count is too high."""
        return self.calls // self._size if len(self._counts) >= self._size else 0
