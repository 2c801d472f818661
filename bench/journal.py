"""The independent count of computations: a file that every process appends to, and that no fault can reach.

A line is one write to a descriptor opened with O_APPEND, so lines of several processes never mix. Written lines stay
when the writer is killed. Times are of `time.monotonic`, one clock for all processes of a machine.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Journal", "Line"]


@dataclass(frozen=True, slots=True)
class Line:
    """`what` is started, or how it went: ended, raised, cancelled. `by`: the process, or a computation's own name."""

    key: str
    by: int | str
    what: str
    at: float


class Journal:
    """`path` is made with the first line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, key: str, by: int | str, what: str) -> None:
        line = json.dumps({"key": key, "by": by, "what": what, "at": time.monotonic()})
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

    def lines(self, key: str, what: str | None = None) -> list[Line]:
        """In the order of writing."""
        if not self.path.exists():
            return []
        # A reader may see the beginning of a write that is under way: that line is not written yet.
        whole, _end, _begun = self.path.read_text().rpartition("\n")
        lines = [Line(**json.loads(text)) for text in whole.splitlines()]
        return [line for line in lines if line.key == key and what in (None, line.what)]
