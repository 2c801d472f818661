"""The events of this process, as lines for viewers: each fault, and the herds of a sample of entries.

| kind | what | from the event |
|---|---|---|
| `asked`, `landed` | a flight of one process begins, and ends | |
| `granted`, `waits`, `woken`, `published` and others | its steps: `stampede_guard.engine.stats.steps` | |
| `began`, `ended` | a computation | `Started`, `Computed` |
| `taken over`, `lapsed`, `fallback`, `timed out` | a fault | `TakenOver`, `LeaseLapsed`, `Fallback`, `TimedOut` |
| `away`, `back` | the store, or a part of it | `BreakerOpened`, `BreakerClosed` |
| `refused`, `recovered`, `not stored` | an answer of the store | `Refused`, `Recovered`, `NotStored` |
| `lease won`, `lease released`, `lease lost` | leases with `hooks=(guard.report,)` | `LeaseWon` and others |
| `job ended` | a slot of a job has its outcome | `JobEnded` |
| `process began` | a process of the fleet is new; many at once are a deployment | |

All processes choose the same entries for the sample, because the entry's hash decides. So a herd is recorded in all of
its processes, or in none. If an entry outside the sample has a fault, this process adds what its flights did before, as
far as it remembers that. Hits never appear.

Steps of herds are many, and everything else is rare. So they go to two streams: `take_steps` and `take`. In a storm of
faults, those after the first few of their kind go with the steps.
"""

from __future__ import annotations

import collections
import json
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

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
    NotStored,
    Recovered,
    Refused,
    Started,
    TakenOver,
    TimedOut,
)
from stampede_guard.stores.fleet.stream import PROCESS_BEGAN, hashed
from stampede_guard.values.forks import renew_in_children
from stampede_guard.values.processplace import this_place

__all__ = ["Happenings", "hashed"]

MOST_WAITING = 500
"""Lines of this process for one stream between two publications. Further ones are counted and left out."""
MOST_HERD_LINES = 200
"""Of these, lines about herds. So a storm of herds leaves places for faults."""
MOST_ALIKE = 5
"""Faults of entries of one kind between two publications that stay out of the stream of herds."""
SAMPLED = 16
"""One entry in this many belongs to the sample while herds are frequent; all do while they are rare."""
RARE = 50
"""Lines about herds between two publications up to which herds are rare."""

MOST_REMEMBERED = 300
"""Lines about herds outside the sample that are kept in case of a fault."""

_HERD: dict[type[Event], str] = {Started: "began", Computed: "ended"}
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
_OF_ENTRIES = frozenset(("taken over", "lapsed", "fallback", "timed out", "not stored"))
"""Faults that come as often as computations."""
_DETAILS = ("flight", "token", "seconds", "outcome", "error", "fallback", "what", "part", "kind", "why")
LONGEST_WORD = 200


class _TimedLine(NamedTuple):
    at: float
    entry: str
    what: dict[str, object]


def _details(event: Event) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in _DETAILS:
        value = getattr(event, name, None)
        if value not in (None, "", False):
            word = "reason" if name == "kind" else name
            found[word] = value[:LONGEST_WORD] if isinstance(value, str) else value
    return found


class Happenings:
    """A hook. `shows_names`: lines contain the names of entries instead of hashes. `clock` in seconds."""

    def __init__(self, *, shows_names: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.shows_names = shows_names
        self._clock = clock
        self._lines: collections.deque[_TimedLine] = collections.deque()
        self._steps: collections.deque[_TimedLine] = collections.deque()
        self._herd_lines = 0
        self._alike: collections.Counter[str] = collections.Counter()
        self._left_out = self._steps_left_out = 0
        self._outside: collections.deque[_TimedLine] = collections.deque(maxlen=MOST_REMEMBERED)
        self._faulty: set[str] = set()
        """Entries with a fault since the last publication."""
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)
        renew_in_children(self, "_lines", collections.deque)
        renew_in_children(self, "_steps", collections.deque)

    def __call__(self, event: Event, /) -> None:
        kind = _HERD.get(type(event))
        if kind is not None:
            self.step(kind, getattr(event, "function", ""), getattr(event, "entry", ""), _details(event))
        elif (fault := _FAULT.get(type(event))) is not None:
            entry = getattr(event, "entry", "")
            with self._lock:
                if entry:
                    self._recall(entry)
                line = self._line(fault, getattr(event, "function", ""), entry, _details(event))
                self._alike[fault] += fault in _OF_ENTRIES
                if self._alike[fault] > MOST_ALIKE:
                    self._add_step(line)
                else:
                    self._add(line)

    def began(self, ago: float) -> None:
        """This process began so many seconds ago."""
        with self._lock:
            self._add(_TimedLine(self._clock() - ago, "", {"kind": PROCESS_BEGAN, "function": ""}))

    def step(self, kind: str, function: str, entry: str, details: Mapping[str, object]) -> None:
        """What a flight does: see `Hooks.steps`."""
        with self._lock:
            line = self._line(kind, function, entry, details)
            if (
                entry not in self._faulty
                and self._herd_lines >= RARE
                and int(hashed(entry)[1:], 16) % SAMPLED
            ):
                self._outside.append(line)
            elif self._herd_lines >= MOST_HERD_LINES:
                self._steps_left_out += 1
            else:
                self._herd_lines += 1
                self._add_step(line)

    def _line(self, kind: str, function: str, entry: str, details: Mapping[str, object]) -> _TimedLine:
        return _TimedLine(
            self._clock(), entry, {"kind": kind, "function": function[:LONGEST_WORD], **details}
        )

    def _recall(self, entry: str) -> None:
        """A fault: add the earlier steps of this entry that the process remembers."""
        if len(self._faulty) < MOST_HERD_LINES:
            self._faulty.add(entry)
        for line in [line for line in self._outside if line.entry == entry]:
            self._outside.remove(line)
            self._add_step(line)

    def _add(self, line: _TimedLine) -> None:
        if len(self._lines) >= MOST_WAITING:
            self._left_out += 1
        else:
            self._lines.append(line)

    def _add_step(self, line: _TimedLine) -> None:
        if len(self._steps) >= MOST_WAITING:
            self._steps_left_out += 1
        else:
            self._steps.append(line)

    def take(self) -> list[tuple[int, str]]:
        """What has come together since the last call, without herds: how many milliseconds ago, and the line."""
        with self._lock:
            lines, self._lines = self._lines, collections.deque()
            self._alike.clear()
            left_out, self._left_out = self._left_out, 0
        return self._texts(lines, left_out)

    def take_steps(self) -> list[tuple[int, str]]:
        """The same about herds."""
        with self._lock:
            lines, self._steps = self._steps, collections.deque()
            self._herd_lines = 0
            self._faulty.clear()
            left_out, self._steps_left_out = self._steps_left_out, 0
        return self._texts(lines, left_out)

    def _texts(self, lines: collections.deque[_TimedLine], left_out: int) -> list[tuple[int, str]]:
        now = self._clock()
        if left_out:
            lines.append(_TimedLine(now, "", {"kind": "left out", "lines": left_out}))
        here = {"process": str(this_place())}
        return [
            (
                max(0, round((now - line.at) * 1000)),
                # The viewers of now decide, not those of the moment when it happened.
                json.dumps(here | {"key": self._shown(line.entry)} | line.what),
            )
            for line in lines
        ]

    def _shown(self, entry: str) -> str:
        return entry[:LONGEST_WORD] if self.shows_names or not entry else hashed(entry)
