"""What a process of the soak saw, one JSON object a line, each written at once: a killed process loses none."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["Call", "Computation", "Event", "Fault", "Invalidation", "Journal", "Lifetime", "now", "read"]

now = time.monotonic
"""The clock of the machine, which all processes share."""

Outcome = Literal["value", "source failed", "timed out", "refused", "cancelled", "other error", "unfinished"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call, by one caller. `key` says whose value it must be; `version` and `found_key` are of what it got.

    `tolerates`: seconds for which copies in the process may be older than an invalidation made elsewhere.
    """

    process: str
    id: int
    key: str
    began: float
    kind: Literal["call", "refresh"] = "call"
    tolerates: float = 0.0
    ended: float = float("inf")
    outcome: Outcome = "unfinished"
    found_key: str = ""
    version: int = -1
    error: str = ""


@dataclass(frozen=True, slots=True)
class Computation:
    """`judged`: False for those that may run beside others, such as bypassed ones."""

    process: str
    id: int
    key: str
    began: float
    version: int
    fresh_for: float
    judged: bool = True
    ended: float = float("inf")
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Of all `keys`, whose source had at least `version[i]` before it began."""

    process: str
    keys: tuple[str, ...]
    versions: tuple[int, ...]
    began: float
    ended: float
    answer: Literal["done", "pending", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Fault:
    """`away`: the store cannot be read meanwhile, so that callers may be served what their process saw last.

    `process`: whom it concerns; empty for all.
    """

    kind: str
    began: float
    ended: float
    away: bool = False
    process: str = ""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A process: it ended by itself (`clean`) or was killed."""

    process: str
    began: float
    ended: float
    clean: bool


Event = Call | Computation | Invalidation | Fault | Lifetime
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Call, Computation, Invalidation, Fault, Lifetime)}


@dataclass(slots=True)
class Journal:
    """A file of events. What begins is written when it begins, and once more when it ends: the last line counts."""

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _file: Any = None

    def write(self, event: Event) -> None:
        line = json.dumps({"event": type(event).__name__, **asdict(event)}) + "\n"
        with self._lock:
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(self._file, line.encode())


def read(folder: Path) -> list[Event]:
    """All events of all processes, each as it was written last."""
    found: dict[tuple[Any, ...], Event] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(_lines(path)):
            kind = _KINDS[line.pop("event")]
            for name in ("keys", "versions"):
                if name in line:
                    line[name] = tuple(line[name])
            event: Event = kind(**line)
            same = (
                (kind, event.process, event.id) if isinstance(event, Call | Computation) else (path, number)
            )
            found[same] = event
    return list(found.values())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return  # the last line of a killed process
