"""The table's main columns as bars."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from bench.peers.report import column_of
from bench.peers.results import Results
from bench.peers.scenarios import SCENARIOS
from bench.peers.verdict import OURS

__all__ = ["draw"]

_PANELS: Final = (
    ("cold", "computations", True),
    ("cold", "wake_up_median", True),
    ("cold", "commands", True),
    ("long", "computations", True),
    ("raises", "computations", True),
    ("cancelled", "harmed", False),
    ("killed", "takeover", False),
    ("redis-killed", "unserved", False),
    ("hot", "together", False),
)
_OURS, _OTHERS, _NEVER = "#1a7f37", "#8c959f", "#cf222e"


def draw(results: Results, path: Path) -> None:
    """Nine panels of bars as a PNG; a time that did not end is a red bar across its panel."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 3, figsize=(13, 9), sharey=True, constrained_layout=True)
    for axis, (scenario, column, logarithmic) in zip(axes.flat, _PANELS, strict=True):
        _panel(axis, results, scenario, column, logarithmic)
    axes[0][0].invert_yaxis()  # shared: turns all of them
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _panel(axis: Any, results: Results, scenario: str, name: str, logarithmic: bool) -> None:
    column = column_of(scenario, name)
    figures = [row.figure(scenario, name) for row in results.rows]
    finite = [figure for figure in figures if figure is not None and math.isfinite(figure)]
    longest = max(finite, default=1.0) or 1.0
    for place, (row, figure) in enumerate(zip(results.rows, figures, strict=True)):
        never = figure is not None and math.isinf(figure)
        width = longest if never else figure or 0.0
        color = _NEVER if never else _OURS if row.name == OURS else _OTHERS
        axis.barh(place, width, color=color, hatch="//" if never else None)
        text = "NOT RUN" if row.not_run else column.text(figure)
        axis.annotate(f" {text}", (width, place), va="center", fontsize=8)
    if logarithmic:
        axis.set_xscale("symlog", linthresh=1)
    axis.set_yticks(range(len(results.rows)), [row.name for row in results.rows], fontsize=8)
    axis.margins(x=0.22)
    axis.set_title(f"{SCENARIOS[scenario].title}: {column.title}", fontsize=9)
    axis.tick_params(axis="x", labelsize=7)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
