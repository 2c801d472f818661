"""The commands of a flight to its driver."""

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
"""How long a caller waits once more for the store, after it has waited a whole deadline without an answer. That is
enough for a lost answer or a dead connection. A frozen server then costs a caller one deadline, not two.
"""

Audience = Literal["covered", "before_compute", "everyone", "leader"]
"""`leader`: the caller whose call was computed. From then on, all others compute by themselves and do not wait."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome to deliver. `own` is the outcome of this flight's computation; it is not in the store's form.

    `pass` is a value that may not be stored. `shared` is true if it may go to all waiters in this process.
    """

    kind: Literal["value", "failure", "pass"]
    body: bytes
    reading: Reading | None = None
    own: bool = False
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Ask:
    """Run the acquire script. Its answer covers the passengers that have joined by now."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a message, at most `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    grant: Granted | None


@dataclass(frozen=True, slots=True)
class Publish:
    """Run the publish script. Its answer covers the passengers that have joined by now."""

    grant: Granted
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Release:
    """Release the lease without an outcome. Then deliver `outcome` in this process, if there is one."""

    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Deliver:
    outcome: Outcome
    to: Audience


@dataclass(frozen=True, slots=True)
class Keep:
    """Do nothing: continue what is running."""


@dataclass(frozen=True, slots=True)
class Land:
    """Forget the flight. If one of its asks was never answered, the driver releases whatever that ask may still be
    granted.
    """


Command = Ask | Wait | Compute | Publish | Release | Deliver | Keep | Land
