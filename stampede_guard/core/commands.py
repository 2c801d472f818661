"""What a flight can have its driver do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Granted

__all__ = [
    "Ask",
    "Audience",
    "Command",
    "Compute",
    "Deliver",
    "Keep",
    "Land",
    "Outcome",
    "Publish",
    "Release",
    "Wait",
]

LATE_SECONDS = 0.1
"""What a caller that has waited for the store in vain, for a whole deadline, waits for it once more. A lost answer or a
dead connection is made good within that; a frozen server costs a caller one deadline, not two."""

Audience = Literal["covered", "before_compute", "everyone", "leader"]
"""`leader`: the one whose call was computed. All others compute for themselves from now on, and wait for nobody."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What there is to hand out. `own` is the outcome of this flight's computation; it is not in the store's form.

    `pass` is a value that may not be stored; `shared` says whether it may be handed to all who wait for it here.
    """

    kind: Literal["value", "failure", "pass"]
    body: bytes
    reading: Reading | None = None
    own: bool = False
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Ask:
    """Run the acquire script. Who has joined by now is covered by its answer."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a message, at most `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    grant: Granted | None


@dataclass(frozen=True, slots=True)
class Publish:
    """Run the publish script. Who has joined by now is covered by its answer."""

    grant: Granted
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Release:
    """Give the lease back without an outcome, then hand out `outcome` in this process if there is one."""

    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Deliver:
    outcome: Outcome
    to: Audience


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do: go on with what is under way."""


@dataclass(frozen=True, slots=True)
class Land:
    """Forget the flight. If one of its asks was never answered, the driver gives back what it may still be granted."""


Command = Ask | Wait | Compute | Publish | Release | Deliver | Keep | Land
