"""What a run found, peer by peer, and the same as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from bench.peers.adapters import ADAPTERS
from bench.peers.scenario import NEVER, Figure, Figures

__all__ = ["Results", "Row"]


@dataclass(slots=True)
class Row:
    """`not_run` says why a peer has no figures at all; `failed`, by scenario, why it has none there."""

    name: str
    version: str = ""
    not_run: str = ""
    figures: dict[str, Figures] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def figure(self, scenario: str, column: str) -> Figure:
        return self.figures.get(scenario, {}).get(column)


@dataclass(slots=True)
class Results:
    """`setting`: the machine and the server, in a line. `load`: the lowest and the highest load average of the run."""

    setting: str
    load: tuple[float, float] = (0.0, 0.0)
    rows: list[Row] = field(default_factory=list)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "load": list(self.load),
            "rows": {
                row.name: {
                    "version": row.version,
                    "option": ADAPTERS[row.name].about.option,
                    "page": ADAPTERS[row.name].about.page,
                    "not_run": row.not_run,
                    "failed": row.failed,
                    "figures": {
                        scenario: {column: _to_json(figure) for column, figure in figures.items()}
                        for scenario, figures in row.figures.items()
                    },
                }
                for row in self.rows
            },
            "memory": self.memory,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Results:
        rows = [
            Row(
                name=name,
                version=row["version"],
                not_run=row["not_run"],
                failed=row["failed"],
                figures={
                    scenario: {column: _from_json(figure) for column, figure in figures.items()}
                    for scenario, figures in row["figures"].items()
                },
            )
            for name, row in content["rows"].items()
        ]
        before, after = content["load"]
        return cls(content["setting"], (before, after), rows, content["memory"])


def _to_json(figure: Figure) -> float | str | None:
    return "never" if figure is not None and math.isinf(figure) else figure


def _from_json(figure: float | str | None) -> Figure:
    return NEVER if figure == "never" else figure  # type: ignore[return-value]
