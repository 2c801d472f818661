"""What can happen to a flight."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.core.scripts import Answer, Message

__all__ = [
    "Abandoned",
    "Answered",
    "Computed",
    "Delivered",
    "Event",
    "Failed",
    "Heard",
    "Invalidated",
    "LookAgain",
    "PublishAnswered",
    "StoreFailed",
]


@dataclass(frozen=True, slots=True)
class Answered:
    """`draw` is uniform in [0, 1). `wanted`: somebody waits for this flight (a background refresh has nobody)."""

    answer: Answer
    draw: float
    wanted: bool


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The command failed or got no answer; it may still be carried out. `away`: the breaker is open.

    `wanted` is False for an early refresh that nobody waits for.
    """

    away: bool
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Heard:
    message: Message
    wanted: bool


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The poll is due, or the subscription had a gap in which a message may have been lost.

    Or the store is back, and a computation that was to do without it has not begun.
    """

    wanted: bool


@dataclass(frozen=True, slots=True)
class Computed:
    """`storable` is False for a value that may not be stored. `away`: the store is out of reach.

    `shared`: whether such a value is for all passengers; otherwise for the one whose call was computed.
    """

    body: bytes
    storable: bool = True
    away: bool = True
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """`body` is None where the failure must not leave the process."""

    body: bytes | None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The request that the computation was bound to has gone, and no passenger can take over."""


@dataclass(frozen=True, slots=True)
class Invalidated:
    """`invalidate()` was called in this process."""


@dataclass(frozen=True, slots=True)
class PublishAnswered:
    stored: bool


@dataclass(frozen=True, slots=True)
class Delivered:
    """`remaining`: passengers that have nothing yet."""

    remaining: int


Event = (
    Answered
    | StoreFailed
    | Heard
    | LookAgain
    | Computed
    | Failed
    | Abandoned
    | Invalidated
    | PublishAnswered
    | Delivered
)
