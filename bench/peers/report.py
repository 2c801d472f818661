"""The figures as tables: for the terminal, and as Markdown for this folder's README."""

from __future__ import annotations

from typing import Any, Final

from rich.table import Table

from bench.markdown import grid
from bench.peers.adapters import ADAPTERS
from bench.peers.memory import ARMS
from bench.peers.results import Results, Row
from bench.peers.scenario import Column, Scenario
from bench.peers.scenarios import SCENARIOS
from bench.peers.verdict import OURS, Verdict, verdicts

__all__ = ["column_of", "markdown", "memory_ratios", "scenario_cells", "terminal_tables"]

_OVERVIEW: Final = (
    ("cold", "computations", "cold: computations"),
    ("cold", "wake_up_median", "wake-up median, ms"),
    ("cold", "wake_up_max", "max, ms"),
    ("cold", "commands", "Redis commands"),
    ("long", "computations", "8 s: computations"),
    ("raises", "computations", "raises: computations"),
    ("cancelled", "harmed", "cancelled: others harmed"),
    ("killed", "takeover", "killed: takeover, s"),
    ("redis-killed", "computations", "Redis killed: computations"),
    ("redis-killed", "unserved", "unserved"),
    ("redis-frozen", "computations", "frozen: computations"),
    ("redis-frozen", "unserved", "unserved"),
    ("hot", "alone", "hit, x GET"),
    ("hot", "together", "50 callers, x GET"),
)
_MEMORY_TITLES: Final = ("", "option", "a hit, us", "of async_lru's", "of ours")


def terminal_tables(results: Results) -> list[Table]:
    tables = [_terminal(results, scenario) for scenario in _played(results)]
    if results.memory:
        tables.append(_memory_table(results))
    return [*tables, _verdict_table(results)]


def _played(results: Results) -> list[Scenario]:
    return [
        scenario
        for scenario in SCENARIOS.values()
        if any(scenario.name in (*row.figures, *row.failed) for row in results.rows)
    ]


def _terminal(results: Results, scenario: Scenario) -> Table:
    table = Table(title=f"{scenario.title}: {scenario.story}", title_justify="left", pad_edge=False)
    table.add_column("")
    for column in scenario.columns:
        table.add_column(column.title, justify="right")
    for row in results.rows:
        table.add_row(
            row.name, *scenario_cells(row, scenario), style="bold green" if row.name == OURS else ""
        )
    return table


def scenario_cells(row: Row, scenario: Scenario) -> list[str]:
    """One text per column; why there is none in the first."""
    reason = f"NOT RUN: {row.not_run}" if row.not_run else row.failed.get(scenario.name, "")
    if reason:
        return [reason, *[""] * (len(scenario.columns) - 1)]
    return [column.text(row.figure(scenario.name, column.name)) for column in scenario.columns]


def memory_ratios(memory: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """By arm: microseconds per hit, as a multiple of async_lru's, and of ours; or why there is none."""

    def multiple(us: float, of: str) -> str:
        unit = memory.get(of, {}).get("us")
        return f"{us / unit:.1f} x" if unit else "-"

    return {
        name: [f"{figure['us']:.2f}", multiple(figure["us"], "async_lru"), multiple(figure["us"], OURS)]
        if "us" in figure
        else [f"NOT RUN: {figure['absent']}", "", ""]
        for name, figure in memory.items()
    }


def _memory_table(results: Results) -> Table:
    table = Table(title="Hits in process memory", title_justify="left", pad_edge=False)
    for title in _MEMORY_TITLES:
        table.add_column(title)
    for name, cells in memory_ratios(results.memory).items():
        table.add_row(name, ARMS[name][1], *cells)
    return table


def _verdict_table(results: Results) -> Table:
    table = Table(title="Ours, column by column", title_justify="left", pad_edge=False)
    for title in _VERDICT_TITLES:
        table.add_column(title)
    styles = {"first": "green", "level": "", "behind": "bold red"}
    for verdict in verdicts(results, SCENARIOS):
        table.add_row(*_verdict_cells(verdict), style=styles[verdict.standing])
    return table


_VERDICT_TITLES: Final = ("scenario", "column", "ours", "standing", "best of the others", "better at a price")


def _verdict_cells(verdict: Verdict) -> list[str]:
    rival = f"{verdict.rival}: {verdict.column.text(verdict.rivals_figure)}" if verdict.rival else ""
    return [
        SCENARIOS[verdict.scenario].title,
        verdict.column.title,
        verdict.column.text(verdict.ours),
        verdict.standing,
        rival,
        _cheats(verdict),
    ]


def _cheats(verdict: Verdict) -> str:
    """Those that paid the same price together."""
    by_price: dict[str, list[str]] = {}
    for who, price in verdict.cheats:
        by_price.setdefault(price, []).append(who)
    return "; ".join(f"{', '.join(who)} ({price})" for price, who in by_price.items())


def markdown(results: Results) -> str:
    """All tables, under headings of the third rank."""
    parts = [
        f"{results.setting}; load average {results.load[0]:.1f} to {results.load[1]:.1f} during the run."
    ]
    parts += ["### In one table", grid(["", *[title for *_, title in _OVERVIEW]], _overview(results))]
    for scenario in _played(results):
        titles = ["", *[column.title for column in scenario.columns]]
        rows = [[_bold(row.name), *scenario_cells(row, scenario)] for row in results.rows]
        parts += [f"### {scenario.title}", scenario.story, grid(titles, rows)]
    if results.memory:
        rows = [
            [_bold(name), f"`{ARMS[name][1]}`", *cells]
            for name, cells in memory_ratios(results.memory).items()
        ]
        parts += ["### Hits in process memory", grid(_MEMORY_TITLES, rows)]
    rows = [_verdict_cells(verdict) for verdict in verdicts(results, SCENARIOS)]
    parts += ["### Ours, column by column", grid(list(_VERDICT_TITLES), rows)]
    parts += ["### What was used", grid(["", "version", "option", "note"], _used(results))]
    return "\n\n".join(parts) + "\n"


def _overview(results: Results) -> list[list[str]]:
    def cell(row: Row, scenario: str, column: str) -> str:
        if row.not_run:
            return "NOT RUN"
        if scenario in row.failed:
            return "failed"
        return column_of(scenario, column).text(row.figure(scenario, column))

    return [
        [_bold(row.name), *[cell(row, scenario, column) for scenario, column, _ in _OVERVIEW]]
        for row in results.rows
    ]


def _used(results: Results) -> list[list[str]]:
    rows = []
    for row in results.rows:
        about = ADAPTERS[row.name].about
        note = f"NOT RUN: {row.not_run}" if row.not_run else about.note
        rows.append([f"[{row.name}]({about.page})", row.version, f"`{about.option}`", note])
    return rows


def _bold(name: str) -> str:
    return f"**{name}**" if name.startswith(OURS) else name


def column_of(scenario: str, name: str) -> Column:
    return next(column for column in SCENARIOS[scenario].columns if column.name == name)
