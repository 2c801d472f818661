"""The states of a flight."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.core.commands import Outcome
from stampede_guard.core.scripts import Granted

__all__ = [
    "Asking",
    "Computing",
    "Delivering",
    "Landed",
    "Publishing",
    "State",
    "Waiting",
]


@dataclass(frozen=True, slots=True)
class Asking:
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """Another flight holds the lease. `fence`: messages with a smaller token are older than what this flight may
    serve.
    """

    fence: int


@dataclass(frozen=True, slots=True)
class Computing:
    """`grant` is None while the store is away: the value will not be stored. `fenced`: invalidated in this process.

    A grant without a lease belongs to an uncacheable key: others compute at the same time.
    """

    grant: Granted | None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Publishing:
    grant: Granted
    outcome: Outcome
    fenced: bool = False
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Delivering:
    pass


@dataclass(frozen=True, slots=True)
class Landed:
    pass


State = Asking | Waiting | Computing | Publishing | Delivering | Landed
