"""What a run found: one row per peer, medians, and ratios of neighbours."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.http.peers import BARE, HISHEL, OURS

__all__ = ["Bar", "Results", "Row"]


@dataclass(slots=True)
class Row:
    """`rounds` has a figure per round and column. `expiries` has the application's calls, one count per expiry.
    `errors` counts requests that got no answer. `not_run` and `failed` give the reason if there are no figures."""

    name: str
    version: str = ""
    not_run: str = ""
    failed: str = ""
    rounds: dict[str, list[float]] = field(default_factory=dict)
    expiries: list[int] = field(default_factory=list)
    errors: int = 0

    def median(self, column: str) -> float | None:
        return statistics.median(self.rounds[column]) if self.rounds.get(column) else None


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure of ours should be."""

    what: str
    figure: float
    limit: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.figure <= self.limit if self.at_most else self.figure >= self.limit


@dataclass(slots=True)
class Results:
    """`setting`: the machine and the programs, in a line. `load`: the lowest and highest load average of the run."""

    setting: str
    rows: list[Row]
    load: tuple[float, float] = (0.0, 0.0)

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def ratio(self, name: str, column: str, *, to: str = BARE) -> float | None:
        """The median ratio of two figures of the same round."""
        known = {row.name for row in self.rows}
        if not {name, to} <= known:
            return None
        pairs = zip(self.row(name).rounds.get(column, ()), self.row(to).rounds.get(column, ()), strict=False)
        ratios = [one / other for one, other in pairs if other]
        return statistics.median(ratios) if ratios else None

    def bars(self) -> list[Bar]:
        """Those whose figures are there."""
        found = [
            (
                "CPU of a hit, one after the other, of the bare app's",
                self.ratio(OURS, "cpu_alone"),
                1.3,
                True,
            ),
            ("CPU of a hit, 32 at once, of the bare app's", self.ratio(OURS, "cpu_together"), 1.3, True),
            ("CPU of a hit, uvicorn included, of the bare app's", self.ratio(OURS, "cpu"), 1.3, True),
            *(
                (f"hits a second, of those of {name}", self.ratio(OURS, "rate", to=name), 2.0, False)
                for name in HISHEL
            ),
        ]
        bars = [Bar(what, figure, limit, low) for what, figure, limit, low in found if figure is not None]
        expiries = next((row.expiries for row in self.rows if row.name == OURS), [])
        if expiries:
            bars.append(Bar("calls of the application per expiry, the most", float(max(expiries)), 1.0, True))
        return bars

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Results:
        before, after = content["load"]
        return cls(content["setting"], [Row(**row) for row in content["rows"]], (before, after))
