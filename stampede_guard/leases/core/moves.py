"""What happens to an acquirer (events), and what it is to do next (commands): see `leases.core.holding`."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.leases.words import Answer, Refused, Renewed

__all__ = [
    "Answered",
    "AskFor",
    "Command",
    "Ended",
    "Event",
    "Failed",
    "Freed",
    "GiveUp",
    "Looked",
    "Lose",
    "Nothing",
    "Release",
    "Renew",
    "Returned",
    "Sleep",
    "Stop",
    "Want",
]


# --- events; `now` is the holder's own clock


@dataclass(frozen=True, slots=True)
class Want:
    """`wait`: seconds of patience; 0 = one question, and no place in the queue."""

    now: float
    wait: float


@dataclass(frozen=True, slots=True)
class Looked:
    now: float


@dataclass(frozen=True, slots=True)
class Answered:
    """`draw`: a random number from 0 to 1. `hears`: whether the back end's calls are heard at present."""

    answer: Answer | Renewed | Refused
    now: float
    draw: float = 0.0
    hears: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """An error or no answer in time: nothing is known."""

    now: float
    draw: float = 0.0


@dataclass(frozen=True, slots=True)
class Freed:
    """The back end's hint that it was given back, or that its holder is to give it back.

    `ahead`: how many were called before this one, -1 = not known.
    """

    now: float
    draw: float = 0.0
    ahead: int = -1


@dataclass(frozen=True, slots=True)
class Ended:
    """The body has ended, of itself or because it was told."""

    now: float


@dataclass(frozen=True, slots=True)
class Returned:
    """What the release said: whether it was held until then; None = unknown."""

    held: bool | None
    now: float


Event = Want | Looked | Answered | Failed | Freed | Ended | Returned


# --- commands


@dataclass(frozen=True, slots=True)
class AskFor:
    place: float
    turn: float = 0.0


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Somebody else has it, or the back end is away, and the patience is over."""


@dataclass(frozen=True, slots=True)
class Sleep:
    until: float


@dataclass(frozen=True, slots=True)
class Renew:
    pass


@dataclass(frozen=True, slots=True)
class Stop:
    """Tell the body, and look again."""

    why: str


@dataclass(frozen=True, slots=True)
class Lose:
    """Tell the body, loudly: nothing protects it any more."""

    why: str


@dataclass(frozen=True, slots=True)
class Release:
    pass


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


Command = AskFor | GiveUp | Sleep | Renew | Stop | Lose | Release | Nothing
