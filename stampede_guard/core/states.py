"""The state of a flight: its phase, its kind, and what it knows. `decide` reads nothing else of a flight."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from stampede_guard.core.asks import Granted
from stampede_guard.core.outcome import FlightOutcome

FlightKind = Literal["foreground", "refresh", "early", "bypassed", "alone"]
"""`refresh`: callers get a stale value during the flight, or `refresh()` was called. `early`: they get a fresh value.
So only the lease decides whether this flight computes. `bypassed`: it never asks the store. `alone`: for one caller.
"""


@dataclass(frozen=True, slots=True)
class Asking:
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """Another flight holds the lease. Messages with a token below `fence` are older than what this flight may serve."""

    fence: int


@dataclass(frozen=True, slots=True)
class Computing:
    """`grant` is None without the store; not leased for an uncacheable key. `fenced`: invalidated in this process."""

    grant: Granted | None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Publishing:
    grant: Granted
    outcome: FlightOutcome
    fenced: bool = False
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Delivering:
    """`serves` is False if a lease is released without an outcome for the passengers."""

    serves: bool = True


@dataclass(frozen=True, slots=True)
class Landed:
    pass


Phase = Asking | Waiting | Computing | Publishing | Delivering | Landed


class FlightState(NamedTuple):
    """`newer_than`: the answer needs a token above this one. `overtakes`: a holder's running computation is outdated.

    `serves_old`: callers have an old value during the flight. `lingers`: it waits on after its last passenger gave up,
    so that later callers know how slow it is. `late`: its callers have waited a whole deadline for the store already.
    `trusted_until`: until then the holder counts as alive. `suspected`: the holder's process may be gone. `unsure`: a
    command was never answered. `failed`: the last outcome was a failure. `open_until`: after that, another process
    may have published: the lease was lost, or a fallback has ended the wait there. `served`: it has handed out an
    outcome. `kept`: False if the store did not keep the latest outcome; None if it refused that, because it has a newer
    value or has lost the record.
    """

    phase: Phase
    kind: FlightKind = "foreground"
    newer_than: int = 0
    overtakes: bool = False
    serves_old: bool = False
    lingers: bool = False
    late: bool = False
    trusted_until: float = 0.0
    suspected: bool = False
    unsure: bool = False
    failed: bool = False
    open_until: float = inf
    served: bool = False
    kept: bool | None = True
