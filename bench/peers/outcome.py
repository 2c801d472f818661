"""What one herd came to, and the figures that are made of it. No clock and no process: arithmetic only."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.journal import Line

__all__ = ["NOBODY", "Answer", "Outcome"]

NOBODY: Final = None
"""Stands for a figure that does not exist: no caller waited, or no holder was replaced."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`kind` is value, wrong value, cancelled, waiting (given up), or error: and its type."""

    worker: int
    at: float
    kind: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`began` is when the herd set off; the lists are in no order but `started` and `ended`, which are in time's."""

    began: float
    answers: Sequence[Answer]
    started: Sequence[Line] = field(default=())
    ended: Sequence[Line] = field(default=())

    @property
    def computations(self) -> int:
        return len(self.started)

    @property
    def kinds(self) -> Counter[str]:
        return Counter(answer.kind for answer in self.answers)

    @property
    def served(self) -> int:
        """Callers that got the value."""
        return self.kinds["value"]

    @property
    def errors(self) -> Counter[str]:
        """Answers that are none of the value."""
        return Counter(
            {kind: count for kind, count in self.kinds.items() if kind not in ("value", "waiting")}
        )

    @property
    def waiting(self) -> int:
        """Callers that were given up."""
        return self.kinds["waiting"]

    @property
    def seconds(self) -> float | None:
        """Until the last caller had an answer, of whatever kind; None if one never had."""
        if self.waiting or not self.answers:
            return NOBODY
        return max(answer.at for answer in self.answers) - self.began

    def wake_ups(self) -> list[float]:
        """Seconds from the end of the first computation to each answer in a process that computed nothing itself.

        Empty if every process computed: then no process was woken.
        """
        if not self.ended:
            return []
        made = self.ended[0].at
        computing = {line.by for line in self.started}
        return [
            answer.at - made
            for answer in self.answers
            if answer.kind == "value" and answer.worker not in computing
        ]

    def takeover(self, killed_at: float, killed: int) -> float | None:
        """Seconds from the kill to the next computation in a surviving process; None if there was none."""
        after = [line.at - killed_at for line in self.started if line.by != killed and line.at > killed_at]
        return min(after, default=NOBODY)

    def already_computing(self, killed_at: float, killed: int) -> int:
        """Computations that survivors had begun before the kill: where there are some, no takeover is needed."""
        return sum(line.by != killed and line.at <= killed_at for line in self.started)


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else NOBODY
