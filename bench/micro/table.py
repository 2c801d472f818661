"""The rows as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from bench.micro.row import Row

__all__ = ["as_cells", "terminal_table"]


def terminal_table(rows: Sequence[Row], *, title: str) -> Table:
    table = Table(title=title, title_justify="left", pad_edge=False)
    table.add_column("work")
    for column in ("ours", "bare", "figure", "must be", ""):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.work,
            _amount(row.ours, row.unit),
            "" if row.baseline is None else _amount(row.baseline, row.unit),
            figure(row),
            target(row),
            _verdict(row),
            style="dim" if row.target is None else "",
        )
    return table


def as_cells(row: Row) -> list[str]:
    """The same row for a page."""
    met = "" if row.met is None else "met" if row.met else "**missed**"
    bare = "" if row.baseline is None else _amount(row.baseline, row.unit)
    return [row.work, _amount(row.ours, row.unit), bare, figure(row), target(row), met]


def figure(row: Row) -> str:
    if row.unit in ("us", "ms"):
        return f"{row.figure:.1f} x" if row.figure >= 3 else f"{row.figure:.2f} x"
    return _amount(row.figure, row.unit)


def target(row: Row) -> str:
    if row.target is None:
        return ""
    sign = ">=" if row.better == "more" else "<="
    unit = " x" if row.unit in ("us", "ms") else f" {row.unit}"
    return f"{sign} {row.target:g}{unit}".rstrip()


def _amount(value: float, unit: str) -> str:
    digits = 0 if not unit else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}".rstrip()


def _verdict(row: Row) -> str:
    if row.met is None:
        return ""
    return "[green]met[/]" if row.met else "[bold red]missed[/]"
