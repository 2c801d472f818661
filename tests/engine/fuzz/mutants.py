"""Rules of the engine, each taken out: some seed must notice it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

from stampede_guard.engine import serving
from stampede_guard.engine.away.slots import Slots
from stampede_guard.engine.flights.computation import Computation
from stampede_guard.engine.flights.fallback import FallbackRun
from stampede_guard.engine.flights.passengers import Passengers
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


MUTANTS = {
    "an outdated value is a denial": Mutant(FallbackRun, "_is_of_use", _or_denied, 208),
    "a refresh takes what it replaces": Mutant(serving, "Refreshed", None, 3),
    "an outcome is for everyone": Mutant(Passengers, "up_to", lambda self, to: self.joined, 66),
    "no renewal": Mutant(Computation, "_renewing", lambda self, grant: AT_ITS_PACE, 274),
    "a turn is not given back": Mutant(Slots, "give_back", lambda self: None, 0),
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    mutant = MUTANTS[name]
    with mock.patch.object(mutant.owner, mutant.attribute, mutant.instead):
        yield
