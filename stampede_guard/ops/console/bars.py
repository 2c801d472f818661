"""How long the runs of a job took, as bars: points from numbers. The elements are in `templates/job.html`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stampede_guard.ops.console.charts import ceiling

__all__ = ["Bar", "Bars"]

FEWEST = 30
"""A figure has room for at least so many runs. So a few runs are not drawn as wide blocks."""
LOWEST = 3.0
"""Height of a run without a duration, such as a missed slot."""


@dataclass(frozen=True, slots=True)
class Bar:
    """`run`: the run as it was given."""

    x: float
    y: float
    width: float
    height: float
    run: Mapping[str, Any]


class Bars:
    """`runs`: mappings with `seconds` (None = no duration), oldest first. `limit`: seconds at which a line is drawn.

    `top`: the seconds at the upper edge. `line`: the place of the line, None if it is above the figure.
    """

    def __init__(
        self,
        runs: Sequence[Mapping[str, Any]],
        *,
        limit: float | None = None,
        width: float = 640.0,
        height: float = 160.0,
    ) -> None:
        self.width, self.height = width, height
        self.top = ceiling(max((run["seconds"] or 0.0 for run in runs), default=0.0))
        step = width / max(FEWEST, len(runs))
        first = width - step * len(runs)
        self.bars = [
            self._bar(round(first + step * at, 1), round(step * 0.8, 1), run) for at, run in enumerate(runs)
        ]
        self.line = None if limit is None or limit > self.top else round(height * (1 - limit / self.top), 1)

    def _bar(self, x: float, width: float, run: Mapping[str, Any]) -> Bar:
        high = max(LOWEST, self.height * (run["seconds"] or 0.0) / self.top)
        return Bar(x, round(self.height - high, 1), width, round(high, 1), run)
