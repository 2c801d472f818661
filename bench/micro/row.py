"""One line of the speed table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Row", "speed"]

Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`figure` is compared with the target. `ours` and `baseline` are the figures that it was made from, in `unit`.

    `better` is the side of the target where it should be. A row without a target is only for comparison.
    """

    name: str
    work: str
    ours: float
    baseline: float | None
    unit: str
    figure: float
    target: float | None
    better: Better
    samples: int
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.figure >= self.target if self.better == "more" else self.figure <= self.target

    def to_json(self) -> dict[str, Any]:
        return {
            "work": self.work,
            "ours": self.ours,
            "baseline": self.baseline,
            "unit": self.unit,
            "figure": self.figure,
            "target": self.target,
            "better": self.better,
            "met": self.met,
            "samples": self.samples,
            **self.details,
        }


def speed(
    name: str, work: str, *, ours: Sequence[float], baseline: Sequence[float], target: float | None
) -> Row:
    """How many times as fast: the median of the ratios of neighbours, which share what else the machine was doing.

    `ours` and `baseline` are microseconds per call, measured in turn.
    """
    ratios = [theirs / mine for mine, theirs in zip(ours, baseline, strict=True)]
    return Row(
        name=name,
        work=work,
        ours=statistics.median(ours),
        baseline=statistics.median(baseline),
        unit="us",
        figure=statistics.median(ratios),
        target=target,
        better="more",
        samples=len(ratios),
        details={"lowest_ratio": min(ratios), "highest_ratio": max(ratios)},
    )
