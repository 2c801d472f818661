"""Rules of the engine, each taken out: some seed must notice it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

from stampede_guard.engine import serving
from stampede_guard.engine.away.slots import Slots
from stampede_guard.engine.flights import flight
from stampede_guard.engine.flights.computation import Computation
from stampede_guard.engine.flights.fallback import FallbackRun
from stampede_guard.engine.flights.flight import Flight
from stampede_guard.engine.flights.passengers import Passengers
from stampede_guard.engine.ground.memories import Memories
from stampede_guard.engine.tasks import AT_ITS_PACE
from stampede_guard.errors import StoreUnavailable

__all__ = ["MUTANTS", "mutated"]


class Mutant(NamedTuple):
    """`seed`: one that notices it. Where a change has made it another one, some more are tried."""

    owner: Any
    attribute: str
    instead: Any
    seed: int


_is_of_use = FallbackRun._is_of_use


async def _or_denied(self: FallbackRun, reading: Any) -> bool:
    if not await _is_of_use(self, reading):
        raise StoreUnavailable("an outdated value counts as a denial")
    return True


async def _believed(runtime: Any, flight: Any, message: Any) -> Any:
    return message


MUTANTS = {
    "an outdated value is a denial": Mutant(FallbackRun, "_is_of_use", _or_denied, 190),
    "a refresh takes what it replaces": Mutant(serving, "Refreshed", None, 67),
    "an outcome is for everyone": Mutant(Passengers, "up_to", lambda self, to: self.joined, 7),
    "no renewal": Mutant(Computation, "_renewing", lambda self, grant: AT_ITS_PACE, 274),
    "an invalidation forgets no values": Mutant(
        Memories, "forget_values", lambda self, name, *, fence=0: None, 281
    ),
    "a flight does not hear of an invalidation": Mutant(Flight, "invalidated", lambda self: None, 399),
    "messages are believed": Mutant(flight, "believed", _believed, 159),
    "a place is not given back": Mutant(FallbackRun, "_give_back", lambda self, flight_id: None, 5451),
    "a turn is not given back": Mutant(Slots, "give_back", lambda self: None, 0),
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    mutant = MUTANTS[name]
    with mock.patch.object(mutant.owner, mutant.attribute, mutant.instead):
        yield
