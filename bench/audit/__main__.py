"""`python -m bench.audit`: files per second and peak memory of the audit, ruff and bandit on the same trees."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.audit.measure import LONGEST, Run, best_of
from bench.audit.tools import tools
from bench.audit.trees import Tree, passing, whole
from bench.herd.story import machine

# What is promised, on two cores: files per second on each tree, and memory of all processes.
RATES = {"everything": 1_000, "all of it parsed": 100}
MEMORY = 300_000_000
LINE = 110


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, also if a target is missed (a busy machine is not a bug). 1 if it could not be measured."""
    options = _parse(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=LINE)  # a file has no width of its own
    with tempfile.TemporaryDirectory() as place:
        try:
            tree = whole(Path(place, "whole"), options.tree)
            trees = [tree, passing(tree, Path(place, "passing"))]
            figures = [row for each in trees for row in measure(each, options.times)]
        except (RuntimeError, OSError) as error:
            console.print(f"[bold red]it could not be measured:[/] {error}", highlight=False)
            return 1
    console.print(table(figures, machine()))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"setting": machine(), "rows": figures}, indent=2) + "\n")
    return 0


def measure(tree: Tree, times: int) -> list[dict[str, Any]]:
    """A row for each tool; one that is not installed has no figures."""
    rows = []
    for tool in tools():
        command = tool.on(tree.folder)
        if command is None or not tree.files:
            rows.append(_row(tree, tool.name, None))
            continue
        row = _row(tree, tool.name, best_of(command, times))
        rows.append(row if "rate" in row else row | {"longer": LONGEST})
    return rows


def _row(tree: Tree, tool: str, taken: Run | None) -> dict[str, Any]:
    row: dict[str, Any] = {"tree": tree.name, "files": tree.files, "bytes": tree.size, "tool": tool}
    if taken is not None:
        row |= {"seconds": taken.seconds, "cpu": taken.cpu, "memory": taken.memory}
        row["rate"] = tree.files / taken.seconds
    return row


def table(rows: Sequence[dict[str, Any]], setting: str) -> Table:
    made = Table(title=setting, title_justify="left", pad_edge=False)
    for column in ("tree", "files", "MB", "tool"):
        made.add_column(column, justify="left" if column in ("tree", "tool") else "right")
    for column in ("seconds", "CPU seconds", "files/s", "memory", "must be"):
        made.add_column(column, justify="right")
    for row in rows:
        made.add_row(*figure_cells(row))
    return made


def figure_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table as texts."""
    what = (row["tree"], f"{row['files']:,}", f"{row['bytes'] / 1e6:.1f}", row["tool"])
    return (*what, *_figures(row))


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    if "longer" in row:
        return (f"> {row['longer']:.0f}", "", f"< {row['files'] / row['longer']:,.0f}", "", "")
    if "rate" not in row:
        return ("NOT RUN", "", "", "", "")
    seconds = (f"{row['seconds']:.2f}", f"{row['cpu']:.2f}")
    return (*seconds, f"{row['rate']:,.0f}", f"{row['memory'] / 1e6:.0f} MB", _verdict(row))


def _verdict(row: dict[str, Any]) -> str:
    if not row["tool"].startswith("stampede"):
        return ""
    least = RATES[row["tree"]]
    met = row["rate"] >= least and row["memory"] <= MEMORY
    return f">= {least:,}, <= {MEMORY / 1e6:.0f} MB: {'met' if met else 'missed'}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__)
    parser.add_argument(
        "--tree", type=Path, nargs="+", metavar="DIR", help="default: the library and site-packages"
    )
    parser.add_argument("--times", type=int, default=2, metavar="N", help="the best of so many runs counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
