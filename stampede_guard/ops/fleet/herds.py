"""The herds of a fleet, from what its processes told: pure.

A herd is one expiry of one entry: the flights of all processes that overlap. A process has a lane in it. Times come
from processes, each by the server's clock less the age of the line. So two lanes agree within about one round trip.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stampede_guard.stores.fleet.stream import HERD_KINDS, Happening

__all__ = ["HerdLane", "HerdMark", "HerdSpan", "HerdStory", "herds"]

SETTLED_SECONDS = 0.25
"""After a value was stored, a flight that begins this much later belongs to the next expiry."""
FAILED_SECONDS = 0.05
"""The same after a computation raised. The next flight computes again, so only differences of clocks are allowed."""
UNSETTLED_SECONDS = 30.0
"""The same while no value was stored. Within this time a computation shows a sign of life: it renews its lease."""
LONGEST_SECONDS = 300.0
"""Of a herd. An entry that may not be stored is computed all the time."""
MOST_HERDS = 500
MOST_LANES = 64
MOST_MARKS = 200
"""Of a lane."""

FAULTS = ("taken over", "lapsed", "fallback", "timed out", "not stored")
"""Kinds of happenings that are faults of an entry."""

_RANKS = {
    kind: rank
    for rank, kind in enumerate(
        (
            "asked",
            "waits",
            "suspects",
            "granted",
            "taken over",
            "began",
            "ended",
            "published",
            "woken",
            "found",
            "landed",
        )
    )
}
"""The order of lines of one millisecond. Others come first."""

SpanKind = Literal["wait", "compute", "fallback"]


@dataclass(frozen=True, slots=True)
class HerdMark:
    """Something at one moment. `at`: seconds since the herd began. `kind`: as in `Happening`. `text`: what it says."""

    at: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class HerdSpan:
    """Something that lasted. `ended` None: its end is unknown, because the process died or has not told it yet."""

    kind: SpanKind
    began: float
    ended: float | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class HerdLane:
    """What one process did. `callers`: those that waited in it, as far as its flights have ended."""

    process: str
    callers: int
    spans: tuple[HerdSpan, ...]
    marks: tuple[HerdMark, ...]


@dataclass(frozen=True, slots=True)
class HerdStory:
    """`began`: seconds since 1970, by the server's clock. `seconds`: until the last that is known of it.

    `id` stays the same when more is known. `collapsed`: callers served by another caller's computation.
    `more_lanes`: processes that are left out. `faults`: words of faults, each once.
    `compute_seconds`: the mean duration of the computations that have ended. `stored`: a value was. `error`: the class
    name of what the last computation raised; "" if it returned. `outcome`: for a person.
    """

    id: str
    key: str
    function: str
    began: float
    seconds: float
    lanes: tuple[HerdLane, ...]
    more_lanes: int
    callers: int
    computations: int
    collapsed: int
    compute_seconds: float
    stored: bool
    error: str
    outcome: str
    faults: tuple[str, ...]

    @property
    def saved_seconds(self) -> float:
        """Of the source: the collapsed calls, at the mean duration of the computations."""
        return self.collapsed * self.compute_seconds


def herds(happenings: Iterable[Happening], *, most: int = MOST_HERDS) -> list[HerdStory]:
    """The newest herds, newest first. Ignores what does not belong to an entry."""
    open_: dict[tuple[str, str], _Gathering] = {}
    found: list[_Gathering] = []
    for one in sorted(happenings, key=lambda one: (one.at, _RANKS.get(one.kind, 0))):
        if not one.key or not math.isfinite(one.at) or one.kind not in HERD_KINDS | set(FAULTS):
            continue
        place = one.function, one.key
        herd = open_.get(place)
        if herd is None or not herd.includes(one):
            herd = open_[place] = _Gathering(one)
            found.append(herd)
        herd.add(one)
    found.sort(key=lambda herd: herd.began, reverse=True)
    return [herd.closed() for herd in found[:most]]


class _Gathering:
    """A herd while its lines come, in the order of their times."""

    def __init__(self, first: Happening) -> None:
        self.began = self._last = first.at
        self._key, self._function = first.key, first.function
        self._flights: set[str] = set()
        self._lanes: dict[str, _LaneLines] = {}
        self._stored = self._stored_error = self._failed = False
        self._error = ""
        self._failing: set[str] = set()
        """Flights whose computation raised: what these publish is the error."""
        self._faults: dict[str, None] = {}
        self._more: set[str] = set()

    def includes(self, one: Happening) -> bool:
        if one.at - self.began > LONGEST_SECONDS:
            return False
        flight = _word(one.detail, "flight")
        if flight and flight in self._flights:
            return True
        settled = FAILED_SECONDS if self._failed else SETTLED_SECONDS if self._stored else UNSETTLED_SECONDS
        return one.at - self._last <= settled

    def add(self, one: Happening) -> None:
        self._last = max(self._last, one.at)
        flight = _word(one.detail, "flight")
        if flight and len(self._flights) < MOST_LANES * MOST_MARKS:
            self._flights.add(flight)
        if one.kind in FAULTS:
            self._faults[one.kind] = None
        self._settle(one, flight)
        lane = self._lanes.get(one.process)
        if lane is None:
            if len(self._lanes) >= MOST_LANES:
                if len(self._more) < 10 * MOST_LANES:
                    self._more.add(one.process)
                return
            lane = self._lanes[one.process] = _LaneLines()
        if len(lane.lines) < MOST_MARKS:
            lane.lines.append(one)

    def _settle(self, one: Happening, flight: str) -> None:
        """What is known of the outcome after this line. A fallback decides nothing."""
        if one.kind == "woken" and one.detail.get("how") == "failure":
            self._stored_error = True
        if one.detail.get("fallback"):
            return
        if one.kind == "began":
            self._failed = False
        elif one.kind == "ended":
            self._error = _word(one.detail, "error")
            self._failed = bool(self._error)
            if self._failed and len(self._failing) < MOST_LANES * MOST_MARKS:
                self._failing.add(flight)
        elif one.kind == "published" and one.detail.get("stored") is True:
            if flight in self._failing:
                self._stored_error = True
            else:
                self._stored = True

    def _outcome(self) -> str:
        if self._error:
            served = ", and the stored error was served" if self._stored_error else ""
            return f"the computation raised {self._error}{served}"
        if self._stored:
            return "a value was stored"
        return "served the stored error" if self._stored_error else "no stored value is known"

    def closed(self) -> HerdStory:
        lanes = [lane.closed(process, self.began) for process, lane in self._lanes.items()]
        computed = [span for lane in lanes for span in lane.spans if span.kind != "wait"]
        took = [span.ended - span.began for span in computed if span.ended is not None]
        callers = sum(lane.callers for lane in lanes)
        known = hashlib.blake2b(f"{self._function}\n{self._key}".encode("utf-8", "replace"), digest_size=6)
        return HerdStory(
            id=f"{round(self.began * 1000)}-{known.hexdigest()}",
            key=self._key,
            function=self._function,
            began=self.began,
            seconds=self._last - self.began,
            lanes=tuple(lanes),
            more_lanes=len(self._more),
            callers=callers,
            computations=len(computed),
            collapsed=max(0, callers - sum(1 for span in computed if not span.failed)),
            compute_seconds=sum(took) / len(took) if took else 0.0,
            stored=self._stored,
            error=self._error,
            outcome=self._outcome(),
            faults=tuple(self._faults),
        )


@dataclass(slots=True)
class _LaneLines:
    lines: list[Happening] = field(default_factory=list)

    def closed(self, process: str, zero: float) -> HerdLane:
        callers = 0
        marks: list[HerdMark] = []
        spans: list[HerdSpan] = []
        waiting: dict[str, float] = {}
        computing: dict[tuple[str, bool], float] = {}
        for one in self.lines:
            at, flight, fallback = (
                one.at - zero,
                _word(one.detail, "flight"),
                bool(one.detail.get("fallback")),
            )
            match one.kind:
                case "asked":
                    waiting.setdefault(flight, at)
                case "landed":
                    callers += _number(one.detail, "callers")
                    spans.append(HerdSpan("wait", waiting.pop(flight, at), at))
                case "began":
                    computing.setdefault((flight, fallback), at)
                case "ended":
                    # The line of its beginning may be lost. Its duration is in this one.
                    began = computing.pop((flight, fallback), at - _seconds(one.detail))
                    failed = bool(one.detail.get("error"))
                    spans.append(HerdSpan("fallback" if fallback else "compute", began, at, failed))
                case _:
                    pass
            marks.append(HerdMark(at, one.kind, _text(one)))
        spans += [HerdSpan("wait", began, None) for began in waiting.values()]
        spans += [
            HerdSpan("fallback" if fallback else "compute", began, None)
            for (_, fallback), began in computing.items()
        ]
        spans.sort(key=lambda span: (span.kind != "wait", span.began))
        return HerdLane(process, callers, tuple(spans), tuple(marks))


_TEXTS = {
    "asked": "asks the store",
    "waits": "another worker computes: waits",
    "suspects": "the holder is silent: looks again soon",
    "no answer": "the store does not answer",
    "renewed": "renews the lease",
    "gave back": "gives the lease back",
    "taken over": "takes over: the holder has disappeared",
    "lapsed": "its lease lapsed while it computes",
    "found": "finds the value in the store",
    "not stored": "the store did not keep the value",
}
_WOKEN = {
    "value": "woken, with the value in the message",
    "failure": "woken, with the failure in the message",
    "message": "woken: asks the store for the value",
}


def _text(one: Happening) -> str:
    """What a mark says, for a person. Words from the stream appear shortened."""
    detail = one.detail
    match one.kind:
        case "asked" if _word(detail, "what") not in ("", "foreground"):
            return f"asks the store ({_word(detail, 'what')})"
        case "granted":
            return f"gets the lease, token {_number(detail, 'token')}"
        case "began":
            return "begins a fallback" if detail.get("fallback") else "begins to compute"
        case "ended":
            what = "fallback" if detail.get("fallback") else "computation"
            error = _word(detail, "error")
            return f"{what} ends after {_seconds(detail):.3g} s{': ' + error if error else ''}"
        case "published":
            return (
                "its value is stored"
                if detail.get("stored") is True
                else "its value is refused: it is too old"
            )
        case "woken":
            return _WOKEN.get(_word(detail, "how"), "woken")
        case "landed":
            callers = _number(detail, "callers")
            return f"{callers} {'caller' if callers == 1 else 'callers'} served"
        case "fallback":
            return f"fallback beside a slow holder: {_word(detail, 'outcome')}"
        case "timed out":
            return f"{_word(detail, 'what')} passed"
        case kind:
            return _TEXTS.get(kind, kind)


LONGEST_WORD = 100


def _word(detail: Mapping[str, object], name: str) -> str:
    found = detail.get(name)
    return found[:LONGEST_WORD] if isinstance(found, str) else ""


def _number(detail: Mapping[str, object], name: str) -> int:
    found = detail.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 63 else 0


def _seconds(detail: Mapping[str, object]) -> float:
    found = detail.get("seconds")
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= LONGEST_SECONDS:
        return 0.0
    return float(found)
