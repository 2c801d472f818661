"""What happens in this process, as lines for those who watch: each fault, and the herds of a sample of entries.

| kind | what | from the event |
|---|---|---|
| `asked` | a call found no fresh value | `Miss` |
| `began`, `ended` | a computation | `Started`, `Computed` |
| `woken` | a caller's wait is over | `Waited` |
| `taken over`, `lapsed`, `fallback`, `timed out` | a fault | `TakenOver`, `LeaseLapsed`, `Fallback`, `TimedOut` |
| `away`, `back` | the store, or a part of it | `BreakerOpened`, `BreakerClosed` |
| `refused`, `recovered`, `not stored` | an answer of the store | `Refused`, `Recovered`, `NotStored` |
| `lease won`, `lease released`, `lease lost` | leases with `hooks=(guard.report,)` | `LeaseWon` and others |
| `job ended` | a slot of a job has its outcome | `JobEnded` |

All processes choose the same entries for the sample, because the entry's hash decides. So a herd is recorded in all of
its processes, or in none. Hits never appear.
"""

from __future__ import annotations

import collections
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.events import (
    BreakerClosed,
    BreakerOpened,
    Computed,
    Event,
    Fallback,
    HoldLost,
    JobEnded,
    LeaseLapsed,
    LeaseReleased,
    LeaseWon,
    Miss,
    NotStored,
    Recovered,
    Refused,
    Started,
    TakenOver,
    TimedOut,
    Waited,
)
from stampede_guard.values.forks import renew_in_children
from stampede_guard.values.processplace import this_place

__all__ = ["Happenings", "hashed"]

MOST_WAITING = 500
"""Lines of this process between two publications. Further ones are counted and left out."""
MOST_HERD_LINES = 200
"""Of these, lines about herds. So a storm of herds leaves places for faults."""
SAMPLED = 16
"""One entry in this many belongs to the sample while herds are frequent; all do while they are rare."""
RARE = 50
"""Lines about herds between two publications up to which herds are rare."""

_HERD: dict[type[Event], str] = {Miss: "asked", Started: "began", Computed: "ended", Waited: "woken"}
_FAULT: dict[type[Event], str] = {
    TakenOver: "taken over",
    LeaseLapsed: "lapsed",
    Fallback: "fallback",
    TimedOut: "timed out",
    BreakerOpened: "away",
    BreakerClosed: "back",
    Refused: "refused",
    Recovered: "recovered",
    NotStored: "not stored",
    LeaseWon: "lease won",
    LeaseReleased: "lease released",
    HoldLost: "lease lost",
    JobEnded: "job ended",
}
_DETAILS = ("seconds", "outcome", "error", "fallback", "what", "part", "kind", "why")
LONGEST_WORD = 200


def hashed(entry: str) -> str:
    """Stands for an entry's name where a viewer may not see it: the same in all processes."""
    return "#" + hashlib.blake2b(entry.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Happenings:
    """A hook. `shows_names`: lines contain the names of entries instead of hashes. `clock` in seconds."""

    def __init__(self, *, shows_names: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.shows_names = shows_names
        self._clock = clock
        self._lines: collections.deque[tuple[float, dict[str, Any]]] = collections.deque()
        self._herd_lines = 0
        self._left_out = 0
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)
        renew_in_children(self, "_lines", collections.deque)

    def __call__(self, event: Event, /) -> None:
        kind = _HERD.get(type(event))
        if kind is not None:
            self._tell_herd(kind, event)
        elif (fault := _FAULT.get(type(event))) is not None:
            self._add(fault, event)

    def _tell_herd(self, kind: str, event: Event) -> None:
        entry = getattr(event, "entry", "")
        if self._herd_lines >= RARE and int(hashed(entry)[1:], 16) % SAMPLED:
            return
        if self._herd_lines >= MOST_HERD_LINES:
            self._left_out += 1
            return
        self._herd_lines += 1
        self._add(kind, event)

    def _add(self, kind: str, event: Event) -> None:
        if len(self._lines) >= MOST_WAITING:
            self._left_out += 1
            return
        entry = getattr(event, "entry", "")
        line: dict[str, Any] = {
            "kind": kind,
            "function": getattr(event, "function", "")[:LONGEST_WORD],
            "key": entry[:LONGEST_WORD] if self.shows_names or not entry else hashed(entry),
        }
        for name in _DETAILS:
            value = getattr(event, name, None)
            if value not in (None, "", False):
                word = "reason" if name == "kind" else name
                line[word] = value[:LONGEST_WORD] if isinstance(value, str) else value
        with self._lock:
            self._lines.append((self._clock(), line))

    def take(self) -> list[tuple[int, str]]:
        """What has come together since the last call: how many milliseconds ago, and the line."""
        with self._lock:
            lines, self._lines = self._lines, collections.deque()
            self._herd_lines = 0
            left_out, self._left_out = self._left_out, 0
        now = self._clock()
        if left_out:
            lines.append((now, {"kind": "left out", "lines": left_out}))
        here = {"process": str(this_place())}
        return [(max(0, round((now - at) * 1000)), json.dumps(here | line)) for at, line in lines]
