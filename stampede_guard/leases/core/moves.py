"""The events and commands of an acquirer, a pure state machine: see `leases.core.holding`."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.leases.messages import Answer, LeaseRefused, Renewed

__all__ = [
    "AskFor",
    "BackendAnswered",
    "Command",
    "Ended",
    "Event",
    "Freed",
    "GiveUp",
    "Looked",
    "Lose",
    "NoAnswer",
    "Nothing",
    "ReleaseLease",
    "Renew",
    "Returned",
    "Sleep",
    "Stop",
    "Want",
]


# --- events; `now` is the holder's own clock


@dataclass(frozen=True, slots=True)
class Want:
    """`wait`: seconds to wait at most; 0 = one request, and no place in the queue."""

    now: float
    wait: float


@dataclass(frozen=True, slots=True)
class Looked:
    now: float


@dataclass(frozen=True, slots=True)
class BackendAnswered:
    """`draw`: a random number from 0 to 1. `hears`: whether the back end's calls currently arrive."""

    answer: Answer | Renewed | LeaseRefused
    now: float
    draw: float = 0.0
    hears: bool = False


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """An error, or no answer in time: the outcome is unknown."""

    now: float
    draw: float = 0.0


@dataclass(frozen=True, slots=True)
class Freed:
    """The back end's hint that the lease was released, or that its holder should release it.

    `ahead`: how many waiters were called before this one, -1 = unknown.
    """

    now: float
    draw: float = 0.0
    ahead: int = -1


@dataclass(frozen=True, slots=True)
class Ended:
    """The body has ended, by itself or after the signal to stop."""

    now: float


@dataclass(frozen=True, slots=True)
class Returned:
    """The answer to the release: whether the lease was held until then; None = unknown."""

    held: bool | None
    now: float


Event = Want | Looked | BackendAnswered | NoAnswer | Freed | Ended | Returned


# --- commands


@dataclass(frozen=True, slots=True)
class AskFor:
    place: float
    turn: float = 0.0


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The wait is over: another holder has the lease, or the back end is away."""


@dataclass(frozen=True, slots=True)
class Sleep:
    until: float


@dataclass(frozen=True, slots=True)
class Renew:
    pass


@dataclass(frozen=True, slots=True)
class Stop:
    """Signal the body to stop, then send `Looked`."""

    why: str


@dataclass(frozen=True, slots=True)
class Lose:
    """Signal the body that the lease no longer protects it."""

    why: str


@dataclass(frozen=True, slots=True)
class ReleaseLease:
    pass


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


Command = AskFor | GiveUp | Sleep | Renew | Stop | Lose | ReleaseLease | Nothing
