"""The independent count of computations: an append-only file that every worker writes and no fault can reach.

A line is one write to a descriptor opened with O_APPEND, so lines of several processes never mix and a line that was
written survives the writer, the server and the control socket. Times are seconds of the machine's monotonic clock,
which all its processes share.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Journal", "Line"]


@dataclass(frozen=True, slots=True)
class Line:
    """`what` is started, or how it went: ended, raised, cancelled. `computation` is unique in the fleet."""

    key: str
    computation: str
    what: str
    at: float


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, key: str, computation: str, what: str) -> None:
        line = json.dumps({"key": key, "computation": computation, "what": what, "at": time.monotonic()})
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

    def lines(self, key: str, what: str | None = None) -> list[Line]:
        """In the order of writing."""
        if not self.path.exists():
            return []
        lines = [Line(**json.loads(text)) for text in self.path.read_text().splitlines()]
        return [line for line in lines if line.key == key and what in (None, line.what)]

    def computations(self, key: str) -> list[str]:
        """Every computation that was started, in order; its value is its name."""
        return [line.computation for line in self.lines(key, "started")]

    def by_worker(self, key: str) -> Counter[str]:
        return Counter(name.split("#")[0] for name in self.computations(key))
