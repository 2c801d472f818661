"""A changed state. Every event makes one or more, so this is a part of the price of each miss."""

from __future__ import annotations

from typing import Any, Final, get_args

from stampede_guard.core.states import (
    Asking,
    Computing,
    Delivering,
    FlightKind,
    FlightState,
    Landed,
    Publishing,
)

__all__ = ["AT_WORK", "LANDED", "NEW", "SERVING", "changed"]

AT_WORK: Final = (Computing, Publishing)
"""For `isinstance`. A union of types, written there, would be made anew at each check."""
NEW: Final[dict[str, FlightState]] = {
    kind: FlightState(Asking(), kind, serves_old=kind in ("refresh", "early"))
    for kind in get_args(FlightKind)
}
"""The state in which a flight of each kind begins. These are made once: a frozen object costs more than a decision."""
SERVING: Final = Delivering()
LANDED: Final = Landed()
_PLACES = {name: place for place, name in enumerate(FlightState._fields)}


def changed(state: FlightState, **facts: Any) -> FlightState:
    """`state._replace(**facts)` in half of its time."""
    parts = list(state)
    for name, value in facts.items():
        parts[_PLACES[name]] = value
    return tuple.__new__(FlightState, parts)
