"""How often variants were requested recently, as this process has seen, in bounded space.

A count-min sketch (Cormode and Muthukrishnan, 2005), halved from time to time, as in TinyLFU (Einziger, Friedman
and Manes, 2017). Variants that are requested once do not displace variants in use, however many there are.
"""

from __future__ import annotations

from array import array

__all__ = ["Usage"]

_WIDTH = 1 << 14
_ROWS = 4
_MOST = 255


class Usage:
    """64 KiB, whatever it counts."""

    def __init__(self) -> None:
        self._counts = [array("B", bytes(_WIDTH)) for _ in range(_ROWS)]
        self._additions = 0

    def count(self, what: object) -> int:
        """How often it was added, or a little more; never less, except after halvings."""
        return min(row[place] for row, place in zip(self._counts, _places(what), strict=True))

    def add(self, what: object) -> int:
        """One more. Returns the count with it."""
        places = _places(what)
        for row, place in zip(self._counts, places, strict=True):
            row[place] = min(_MOST, row[place] + 1)
        self._additions += 1
        if self._additions >= _WIDTH * 2:
            self._halve()
        return min(row[place] for row, place in zip(self._counts, places, strict=True))

    def _halve(self) -> None:
        self._additions //= 2
        self._counts = [array("B", [count >> 1 for count in row]) for row in self._counts]


def _places(what: object) -> list[int]:
    number = hash(what)
    return [(number >> shift) % _WIDTH for shift in (0, 14, 28, 42)]


def wins(newcomer: int, occupant: int, *, fresh: bool) -> bool:
    """Whether a variant replaces another. A fresh one that is requested as often stays. So a variant that is
    requested once replaces none.
    """
    return newcomer >= max(2, occupant + 1) if fresh else newcomer >= occupant
