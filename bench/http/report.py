"""The figures as tables and as a picture."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from bench.http.peers import BARE, NOTHING, OURS, PEERS
from bench.http.results import Results, Row
from bench.markdown import grid

__all__ = ["bar_lines", "cells", "draw", "markdown", "terminal_table"]

TITLES: Final = (
    "hits a second", "x bare", "P99, ms", "CPU of a hit, us", "x bare", "x nothing", "without uvicorn, us", "x bare",
    "32 at once, us", "x bare", "calls per expiry",
)  # fmt: skip
_COLUMNS: Final = (
    ("rate", 1.0, True),
    ("p99", 1e3, False),
    ("cpu", 1e6, True),
    ("cpu_alone", 1e6, True),
    ("cpu_together", 1e6, True),
)


def cells(results: Results, row: Row) -> list[str]:
    """One text per title; why there is none in the first."""
    if row.not_run or row.failed:
        reason = f"NOT RUN: {row.not_run}" if row.not_run else f"failed: {row.failed.splitlines()[0]}"
        return [reason, *[""] * (len(TITLES) - 1)]
    found = []
    for column, factor, beside in _COLUMNS:
        median = row.median(column)
        found.append("-" if median is None else _text(median * factor))
        if beside:
            found.append(_ratio(results.ratio(row.name, column)))
        if column == "cpu":
            found.append(_ratio(results.ratio(row.name, column, to=NOTHING)))
    return [*found, _counts(row)]


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _text(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}"


def _counts(row: Row) -> str:
    counts = ", ".join(map(str, row.expiries)) or "-"
    return f"{counts}; {row.errors} errors" if row.errors else counts


def terminal_table(results: Results) -> Table:
    table = Table(pad_edge=False)
    table.add_column("")
    for title in TITLES:
        table.add_column(title, justify="right")
    for row in results.rows:
        table.add_row(row.name, *cells(results, row), style="bold green" if row.name == OURS else "")
    return table


def bar_lines(results: Results) -> list[str]:
    return [
        f"{bar.what}: {bar.figure:.2f} x, {'at most' if bar.at_most else 'at least'} {bar.limit:g} x: "
        f"{'met' if bar.met else 'MISSED'}"
        for bar in results.bars()
    ]


def markdown(results: Results) -> str:
    setting = (
        f"{results.setting}; load average {results.load[0]:.1f} to {results.load[1]:.1f} during the run."
    )
    rows = [[_bold(row.name), *cells(results, row)] for row in results.rows]
    used = [
        [f"[{row.name}]({about.page})", row.version, f"`{about.option}`", about.note]
        for row in results.rows
        if (about := PEERS[row.name].about)
    ]
    bars = "\n".join(f"- {line}" for line in bar_lines(results))
    parts = [setting, grid(["", *TITLES], rows), "The targets for ours:", bars]
    return "\n\n".join([*parts, "### What was used", grid(["", "version", "option", "note"], used)]) + "\n"


def _bold(name: str) -> str:
    return f"**{name}**" if name == OURS else name


_PANELS: Final = (
    ("rate", 1.0, "hits a second, one uvicorn worker"),
    ("cpu_together", 1e6, "CPU of a hit, us (without uvicorn, 32 at once)"),
    ("expiries", 1.0, "calls of the application per expiry"),
)
_OURS, _OTHERS, _BARE = "#1a7f37", "#8c959f", "#d0d7de"


def draw(results: Results, path: Path) -> None:
    """Three panels of bars, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in results.rows if not row.not_run and not row.failed]
    figure, axes = pyplot.subplots(1, len(_PANELS), figsize=(13, 3.6), sharey=True, constrained_layout=True)
    for axis, (column, factor, title) in zip(axes, _PANELS, strict=True):
        _panel(axis, rows, column, factor, title)
    axes[0].invert_yaxis()  # shared: turns all of them
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _panel(axis: Any, rows: list[Row], column: str, factor: float, title: str) -> None:
    for place, row in enumerate(rows):
        if column == "expiries":
            found = float(statistics.median(row.expiries)) if row.expiries else None
        else:
            found = row.median(column)
        color = _OURS if row.name == OURS else _BARE if row.name in (NOTHING, BARE) else _OTHERS
        width = 0.0 if found is None else found * factor
        axis.barh(place, width, color=color)
        axis.annotate(" -" if found is None else f" {_text(width)}", (width, place), va="center", fontsize=8)
    axis.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    axis.margins(x=0.2)
    axis.set_title(title, fontsize=9)
    axis.tick_params(axis="x", labelsize=7)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
