"""The steps of a flight, for viewers of the fleet: a lane of the picture of a herd.

| step | when | details |
|---|---|---|
| `granted` | the lease is this flight's | `token` |
| `waits` | another flight has the lease | |
| `suspects` | the process of that flight has disappeared, perhaps | |
| `no answer` | the store did not answer | |
| `woken` | a message ended the wait | `how`: `value` (it was in the message), `failure`, `message` (ask the store) |
| `found` | the store's answer ended the wait: after a message, or by a poll | |
| `published` | the publication was answered | `stored`, `token` |
| `gave back` | the lease was given back without a publication | |

The runtime adds `asked` and `landed`, the computation `renewed`. The events `Started` and `Computed` add `began` and
`ended`. Only called while a viewer is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.core import commands as do
from stampede_guard.core import events as on
from stampede_guard.core.asks import FailedRecently, Found, Granted, Held, Uncacheable
from stampede_guard.core.states import Publishing

if TYPE_CHECKING:
    from stampede_guard.core.states import FlightState
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.hooks import Steps

__all__ = ["tell_step"]


def tell_step(
    steps: Steps, flight: Flight, before: FlightState, event: on.Event, command: do.Command
) -> None:
    """Tell what this event and the decision that followed mean for a person."""
    if isinstance(event, on.ComputationBegan):
        flight.runtime.publishers.hurry()
    found = _step_of(before, event, command)
    if found is not None:
        kind, details = found
        steps(kind, flight.plan.title, flight.name, {"flight": flight.id, **details})


def _step_of(
    before: FlightState, event: on.Event, command: do.Command
) -> tuple[str, dict[str, object]] | None:
    if isinstance(command, do.GiveBack):
        return "gave back", {}
    match event:
        case on.StoreAnswered(answer):
            return _answered(before, answer)
        case on.StoreFailed():
            return "no answer", {}
        case on.Heard(message) if not isinstance(command, do.Keep):
            if message.kind == "value" and message.reading is not None:
                return "woken", {"how": "value"}
            return "woken", {"how": "failure" if message.kind == "failure" else "message"}
        case on.PublishAnswered(stored) if isinstance(before.phase, Publishing):
            return "published", {"stored": stored, "token": before.phase.grant.token}
        case _:
            return None


def _answered(before: FlightState, answer: object) -> tuple[str, dict[str, object]] | None:
    waited = before.trusted_until > 0
    match answer:
        case Granted(token):
            return "granted", {"token": token}
        case Uncacheable(grant):
            return "granted", {"token": grant.token, "what": "uncacheable"}
        case Held(_, suspect):
            if suspect and not before.suspected:
                return "suspects", {}
            return None if waited else ("waits", {})
        case Found() | FailedRecently() if waited:
            return "found", {}
        case _:
            return None
