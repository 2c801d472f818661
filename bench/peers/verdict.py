"""Where ours is first, level or behind, column by column. A column in which it is behind is a defect of ours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from bench.peers.results import Results, Row
from bench.peers.scenario import Column, Scenario

__all__ = ["OURS", "Verdict", "verdicts"]

OURS: Final = "ours"
Standing = Literal["first", "level", "behind"]
_PRICES: Final = {
    "unserved": "callers without the value",
    "harmed": "callers harmed",
    "computations": "computations",
    "shared": "object for all callers",
}
"""What a better figure may have been bought with, dearest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`rival` is the best of the others with the same price or less: as many callers served, as few computations.

    `cheats` are better figures at a higher price. Each has the peer, the figure and the price.
    """

    scenario: str
    column: Column
    ours: float
    standing: Standing
    rival: str = ""
    rivals_figure: float | None = None
    cheats: tuple[tuple[str, str], ...] = ()


def verdicts(results: Results, scenarios: dict[str, Scenario]) -> list[Verdict]:
    """One for each column in which we have a figure."""
    ours = results.row(OURS)
    if ours is None:
        return []
    others = [row for row in results.rows if row.name != OURS]
    return [
        _verdict(scenario.name, column, ours, others)
        for scenario in scenarios.values()
        for column in scenario.columns
        if column.unit != "us" and ours.figure(scenario.name, column.name) is not None
    ]


def _verdict(scenario: str, column: Column, ours: Row, others: list[Row]) -> Verdict:
    mine = ours.figure(scenario, column.name)
    assert mine is not None
    sign = 1.0 if column.better == "less" else -1.0
    fair: list[tuple[float, str]] = []
    cheats: list[tuple[str, str]] = []
    for row in others:
        figure = row.figure(scenario, column.name)
        if figure is None:
            continue
        prices = list(_prices(scenario, column, ours, row))
        if not prices:
            fair.append((figure, row.name))
        elif sign * figure < sign * mine and not column.level(figure, mine):
            cheats.append((f"{row.name} {column.text(figure)}", ", ".join(prices)))
    best = min(fair, key=lambda pair: sign * pair[0], default=(math.nan, ""))
    return Verdict(
        scenario=scenario,
        column=column,
        ours=mine,
        standing=_standing(column, mine, best[0], sign),
        rival=best[1],
        rivals_figure=None if not best[1] else best[0],
        cheats=tuple(cheats),
    )


def _prices(scenario: str, column: Column, ours: Row, other: Row) -> Iterator[str]:
    """The columns that matter more than this one, in which the other was worse."""
    for price, words in _PRICES.items():
        if price == column.name:
            return
        mine, theirs = ours.figure(scenario, price), other.figure(scenario, price)
        if mine is not None and theirs is not None and theirs > mine:
            yield f"{theirs:,.0f} {words}"


def _standing(column: Column, mine: float, best: float, sign: float) -> Standing:
    if math.isnan(best) or sign * mine < sign * best:
        return "first"
    return "level" if column.level(mine, best) else "behind"
