"""What a scenario is: a story, its columns, and how it is played on a stage."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bench.peers.outcome import Outcome
from bench.peers.stage import Stage

__all__ = ["NEVER", "Column", "Figure", "Figures", "Scenario", "or_never", "unserved"]

Figure = float | None
"""A number; `NEVER` for a time that did not end; None where there is nothing to measure."""
Figures = dict[str, Figure]

NEVER: Final = math.inf

Unit = Literal["count", "ms", "s", "x", "us"]
_SLACK: Final[Mapping[Unit, float]] = {"count": 0.0, "ms": 5.0, "s": 0.05, "x": 0.0, "us": 0.0}
_SHARE: Final[Mapping[Unit, float]] = {"count": 0.0, "ms": 0.1, "s": 0.1, "x": 0.05, "us": 0.1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`better` says which end is the good one. What is in `us` is there to be looked at, and not compared."""

    name: str
    title: str
    unit: Unit
    better: Literal["less", "more"] = "less"

    def level(self, figure: float, best: float) -> bool:
        """Whether the next run may reverse the difference from the best. Such a difference is 5 ms, 0.05 s or a tenth
        for times, and a twentieth for ratios. Counts have none."""
        if figure == best:
            return True
        if math.isinf(figure) or math.isinf(best):
            return False
        return abs(figure - best) <= max(_SLACK[self.unit], _SHARE[self.unit] * best)

    def text(self, figure: Figure) -> str:
        if figure is None:
            return "-"
        if math.isinf(figure):
            return "never"
        match self.unit:
            case "count":
                return f"{figure:,.0f}"
            case "ms" | "us":
                return f"{figure:,.1f}" if figure < 100 else f"{figure:,.0f}"
            case "s" | "x":
                return f"{figure:,.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`story` is a sentence for the reader. `play` raises `PeerFailed` if the peer cannot be brought to it."""

    name: str
    title: str
    story: str
    columns: tuple[Column, ...]
    play: Callable[[Stage], Awaitable[Figures]]


def or_never(seconds: float | None) -> float:
    return NEVER if seconds is None else seconds


def unserved(outcome: Outcome) -> int:
    """Callers that got an error, or nothing."""
    return len(outcome.answers) - outcome.served
