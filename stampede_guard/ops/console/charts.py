"""Figures as SVG, drawn on the server: points from numbers. The elements are in `templates/chart.html`.

No attribute `style` is used, because the policy for content forbids it. Colours are classes of the style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Chart", "Line"]

MOST_POINTS = 720


def ceiling(highest: float) -> float:
    """The end of an axis: 1, 2 or 5 times a power of ten, and not below `highest`."""
    if not highest > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= highest * 0.999)


@dataclass(frozen=True, slots=True)
class Line:
    """`paths`: the parts between gaps. `areas`: the same, closed above the line before or the axis."""

    name: str
    colour: str
    paths: Sequence[str]
    areas: Sequence[str]


class Chart:
    """Lines over equal steps of time. None among the numbers is a gap. `stacked`: each line lies on the one before.

    `series`: name, class of its colour, numbers; all of the same length. `marks`: index and text of moments.
    """

    def __init__(
        self,
        series: Sequence[tuple[str, str, Sequence[float | None]]],
        *,
        stacked: bool = False,
        marks: Sequence[tuple[int, str]] = (),
        width: float = 640.0,
        height: float = 160.0,
    ) -> None:
        self.width, self.height = width, height
        self.length = min(MOST_POINTS, max((len(numbers) for _, _, numbers in series), default=0))
        rows = [
            (name, colour, list(numbers)[-self.length :] if self.length else [])
            for name, colour, numbers in series
        ]
        below = [0.0] * self.length
        levels: list[tuple[list[float], list[float | None]]] = []
        for _, _, numbers in rows:
            floor = list(below) if stacked else [0.0] * self.length
            tops = [None if one is None else floor[at] + one for at, one in enumerate(numbers)]
            if stacked:
                below = [floor[at] if top is None else top for at, top in enumerate(tops)]
            levels.append((floor, tops))
        self.top = ceiling(max((one for _, tops in levels for one in tops if one is not None), default=0.0))
        self.lines = [
            self._line(name, colour, floor, tops)
            for (name, colour, _), (floor, tops) in zip(rows, levels, strict=True)
        ]
        self.marks = [(self._x(index), text) for index, text in marks if 0 <= index < self.length]

    @property
    def is_empty(self) -> bool:
        return not any(line.paths for line in self.lines)

    def _x(self, index: int) -> float:
        return round(self.width * index / max(1, self.length - 1), 1)

    def _y(self, number: float) -> float:
        return round(self.height * (1.0 - min(1.0, number / self.top)), 1)

    def _line(self, name: str, colour: str, floor: Sequence[float], tops: Sequence[float | None]) -> Line:
        paths: list[str] = []
        areas: list[str] = []
        for first, last in _runs(tops):
            points = [f"{self._x(at)},{self._y(tops[at] or 0.0)}" for at in range(first, last)]
            if len(points) == 1:
                # A single point would be invisible.
                points.append(f"{self._x(first) + 1},{self._y(tops[first] or 0.0)}")
            back = [f"{self._x(at)},{self._y(floor[at])}" for at in range(last - 1, first - 1, -1)]
            paths.append("M" + " L".join(points))
            areas.append("M" + " L".join(points + back) + " Z")
        return Line(name, colour, paths, areas)


def _runs(numbers: Sequence[float | None]) -> list[tuple[int, int]]:
    """First and past-the-last index of each part without a gap."""
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for at, number in enumerate([*numbers, None]):
        if number is None:
            if begin is not None:
                found.append((begin, at))
            begin = None
        elif begin is None:
            begin = at
    return found
