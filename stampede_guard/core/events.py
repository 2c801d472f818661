"""The events of a flight."""

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
    """`draw` is uniform in [0, 1). `wanted`: a caller waits for this flight (not so for a background refresh)."""

    answer: Answer
    draw: float
    wanted: bool


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The command failed or got no answer; it may still be carried out. `away`: the breaker is open.

    `wanted` is False for an early refresh without a waiting caller.
    """

    away: bool
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Heard:
    message: Message
    wanted: bool


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The poll is due, or the subscription had a gap, so a message may be lost.

    Or the store is back, and a computation without it has not begun yet.
    """

    wanted: bool


@dataclass(frozen=True, slots=True)
class Computed:
    """`storable` is False for a value that may not be stored. `away`: the store is unreachable.

    `shared`: whether such a value is for all passengers. Otherwise it is for the caller whose call was computed.
    """

    body: bytes
    storable: bool = True
    away: bool = True
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """`body` is None if the failure must not leave the process."""

    body: bytes | None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The request of a bound computation has ended, and no passenger can take over."""


@dataclass(frozen=True, slots=True)
class Invalidated:
    """`invalidate()` was called in this process."""


@dataclass(frozen=True, slots=True)
class PublishAnswered:
    stored: bool


@dataclass(frozen=True, slots=True)
class Delivered:
    """`remaining`: passengers without an outcome."""

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
