"""Rules of the engine, each taken out: some seed must notice it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple
from unittest import mock

from stampede_guard.engine import serving
from stampede_guard.engine.away.slots import Slots
from stampede_guard.engine.flights import flight
from stampede_guard.engine.flights.computation import Computation
from stampede_guard.engine.flights.fallback import FallbackRun
from stampede_guard.engine.flights.flight import Flight
from stampede_guard.engine.flights.mailbox import Mailbox
from stampede_guard.engine.flights.passenger import Passenger
from stampede_guard.engine.flights.passengers import Passengers
from stampede_guard.engine.ground.ground import Ground
from stampede_guard.engine.ground.memories import Memories
from stampede_guard.engine.l1 import L1
from stampede_guard.engine.loops.invalidating import Invalidating
from stampede_guard.engine.modes.switches import Switches
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
_find = L1.find
_look_after = Mailbox.look_after


async def _or_denied(self: FallbackRun, reading: Any) -> bool:
    if not await _is_of_use(self, reading):
        raise StoreUnavailable("an outdated value counts as a denial")
    return True


def _whatever_its_age(self: L1, name: str, tags: tuple[str, ...] = (), *, share: bool = False) -> Any:
    kept = self.get(name)
    if kept is not None and tags == kept.tags:
        kept.until = inf
    return _find(self, name, tags, share=share)


def _anyone(self: Passengers) -> Passenger | None:
    return next(iter(self._aboard.values()), None)


async def _believed(runtime: Any, flight: Any, message: Any) -> Any:
    return message


MUTANTS = {
    "an outdated value is a denial": Mutant(FallbackRun, "_is_of_use", _or_denied, 226),
    "a refresh takes what it replaces": Mutant(serving, "Refreshed", None, 422),
    "an outcome is for everyone": Mutant(Passengers, "up_to", lambda self, to: self.joined, 7),
    "no renewal": Mutant(Computation, "_renewing", lambda self, grant: AT_ITS_PACE, 274),
    "an invalidation forgets no values": Mutant(
        Memories, "forget_values", lambda self, name, *, fence=0: None, 281
    ),
    "a flight does not hear of an invalidation": Mutant(Flight, "invalidated", lambda self: None, 591),
    "messages are believed": Mutant(flight, "believed", _believed, 237),
    "a place is not given back": Mutant(FallbackRun, "_give_back", lambda self, flight_id: None, 5451),
    "other event loops are not told": Mutant(
        Invalidating, "_tell_others", lambda self, name, order: None, 839
    ),
    "a node is the whole store": Mutant(Ground, "away_for", lambda self, name, tags=(): self.away, 4278),
    "what is unchanged may be invalidated": Mutant(
        Computation, "_old", lambda self, leader: self._flight.old, 151
    ),
    "a copy stays for ever": Mutant(L1, "find", _whatever_its_age, 1661),
    "waiters do not poll": Mutant(Mailbox, "look_after", lambda self, seconds: _look_after(self, 60.0), 418),
    "a request serves two at once": Mutant(Passengers, "next_idle", _anyone, 719),
    "a switch never ends": Mutant(Switches, "_without_ended", lambda self: self._known(), 471),
    "modes share a flight": Mutant(serving, "bypassed_name", lambda name: name, 9705),
    "a turn is not given back": Mutant(Slots, "give_back", lambda self: None, 7),
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    mutant = MUTANTS[name]
    with mock.patch.object(mutant.owner, mutant.attribute, mutant.instead):
        yield
