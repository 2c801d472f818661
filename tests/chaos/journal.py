"""What every worker of a fleet has computed, in the order in which it began. See `bench.journal`."""

from __future__ import annotations

from collections import Counter

from bench import journal
from bench.journal import Line

__all__ = ["Journal", "Line"]


class Journal(journal.Journal):
    """`by` in its lines is a computation's name, which is unique in the fleet and is its value, too."""

    def computations(self, key: str) -> list[str]:
        """Every computation that was started, in order; its value is its name."""
        return [str(line.by) for line in self.lines(key, "started")]

    def by_worker(self, key: str) -> Counter[str]:
        return Counter(name.split("#")[0] for name in self.computations(key))
