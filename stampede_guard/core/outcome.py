"""The outcome of a flight, and the passengers that get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stampede_guard.core.entry import Reading

__all__ = ["Audience", "FlightOutcome"]

Audience = Literal["covered", "before_compute", "everyone", "leader"]
"""`leader`: the caller whose call was computed. From then on, all others compute by themselves and do not wait."""


@dataclass(frozen=True, slots=True)
class FlightOutcome:
    """The outcome to deliver. `own` is the outcome of this flight's computation; it is not in the store's form.

    `pass` is a value that may not be stored. `shared` is true if it may go to all waiters in this process.
    """

    kind: Literal["value", "failure", "pass"]
    body: bytes
    reading: Reading | None = None
    own: bool = False
    shared: bool = True
