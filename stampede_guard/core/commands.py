"""The commands of a flight to its driver."""

from __future__ import annotations

from typing import NamedTuple

from stampede_guard.core.asks import Granted
from stampede_guard.core.outcome import Audience, FlightOutcome


class AskStore(NamedTuple):
    """Run the acquire script, `after` some seconds. Its answer covers passengers that joined before it is sent."""

    after: float = 0.0


class Wait(NamedTuple):
    """Wait for a message, at most `seconds`."""

    seconds: float


class Compute(NamedTuple):
    """`taken_over`: the lease of a process that is gone. Passengers that join after it began are not "before" it."""

    grant: Granted | None
    taken_over: bool = False


class Publish(NamedTuple):
    """Run the publish script. Its answer covers the passengers that have joined by now."""

    grant: Granted
    outcome: FlightOutcome


class GiveBack(NamedTuple):
    """Then deliver `outcome`, if any, to the covered. For `pause` seconds, stale hits do not refresh the value."""

    outcome: FlightOutcome | None
    pause: float = 0.0


class Deliver(NamedTuple):
    """`keeps`: this process may serve the value while the store is away. `pause`: as in `GiveBack`."""

    outcome: FlightOutcome
    to: Audience
    keeps: bool = False
    pause: float = 0.0


class Keep(NamedTuple):
    """Do nothing: the current step goes on."""


class Land(NamedTuple):
    """Forget the flight. `releases`: release what its unanswered commands may still get. `pause`: as above."""

    releases: bool = False
    pause: float = 0.0


Command = AskStore | Wait | Compute | Publish | GiveBack | Deliver | Keep | Land
