"""A histogram over time as SVG: a column per moment, a row per bucket of durations, darker where there is more.

All cells of one darkness are one path, so a figure has few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stampede_guard.stores.fleet.histogram import BOUNDS, BUCKETS

__all__ = ["Heat", "heat"]

LEVELS = 5


@dataclass(frozen=True, slots=True)
class Heat:
    """`paths`: of each level, the lightest first; empty where no cell has it. `marks`: place and text of moments.

    `most`: observations of the darkest cell. `labels`: height in percent from the top, and the bound in seconds.
    """

    width: int
    height: int
    paths: Sequence[str]
    marks: Sequence[tuple[float, str]]
    most: int
    labels: Sequence[tuple[float, float]]

    @property
    def is_empty(self) -> bool:
        return not any(self.paths)


def heat(columns: Sequence[Sequence[int]], marks: Sequence[tuple[int, str]] = ()) -> Heat:
    """`columns`: the histogram of each moment (`stampede_guard.stores.fleet.histogram`), oldest first."""
    used = [row for column in columns for row, count in enumerate(column) if count]
    low, high = (min(used), max(used)) if used else (0, BUCKETS - 1)
    # A row to both sides, so that what is near an edge is seen to be.
    low, high = max(0, low - 1), min(BUCKETS - 1, high + 1)
    most = max((count for column in columns for count in column), default=0)
    cells: list[list[str]] = [[] for _ in range(LEVELS)]
    for x, column in enumerate(columns):
        for row in range(low, high + 1):
            if column[row]:
                cells[_level(column[row], most)].append(f"M{x},{high - row} h1 v1 h-1 Z")
    rows = high - low + 1
    labels = [((high - row) * 100 / rows, BOUNDS[row]) for row in range(low, high)]
    placed = [(float(index), text) for index, text in marks if 0 <= index < len(columns)]
    return Heat(len(columns), rows, [" ".join(paths) for paths in cells], placed, most, labels)


def _level(count: int, most: int) -> int:
    """By the square root: few slow ones beside many fast ones are what one looks for."""
    return min(LEVELS - 1, int((count / most) ** 0.5 * LEVELS))
