"""A store that answers reads and refuses writes: too few replicas, a full disk, no memory, a replica.

An entry whose invalidation waits in this process while its server answers is in the same state. The store's value is
older, so it is not read. And other processes may have invalidated the entry since, with success.

Such a store is not away, so a value that any process has invalidated must not be served. And nothing can be stored, so
every call would compute. Therefore a value that this process computed itself is served, with a proof that no
invalidation happened since. The proof is the entry's epoch and fence and the versions of its tags. They can be read.
The value counts while they are the same as before its computation began.

1. A computes without a lease and keeps the value.
2. The store accepts writes again. B invalidates and receives "done".
3. The store refuses writes. It has neither value, so a read does not show A the invalidation. The fence does.

A record that was created and expired in between would leave no trace. So a proof holds at most for the lifetime of a
record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.core.entry import Reading
from stampede_guard.engine.away.last_seen import Proof
from stampede_guard.engine.tags.versions import VersionsAsked
from stampede_guard.errors import StoreError

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.loops.runtime import Runtime

__all__ = ["ask_without_writes", "look_for_proof", "own_value"]


async def look_for_proof(runtime: Runtime, flight: Flight) -> Proof | None:
    """State of the store that every later invalidation changes. None: it cannot be determined."""
    until = runtime.now() + flight.plan.policy.record_ms / 1000
    try:
        tags = VersionsAsked(runtime, flight.tags) if flight.tags else None
        fence = await runtime.session.fence(flight.name)
        versions = await tags.answer() if tags is not None else []
    except StoreError:
        return None
    # For a tag without a version, a further invalidation would change nothing.
    return None if None in versions else Proof(until, (fence, *versions))


def own_value(runtime: Runtime, flight: Flight, proof: Proof | None) -> Reading | None:
    """The fresh value that this process has computed itself, if it was not invalidated since."""
    state = flight.state
    # Only a value that is newer than another is an answer then. Nobody knows the age of this one.
    if proof is None or state.newer_than or state.overtakes:
        return None
    known = runtime.last.own(flight.name, proof, now=runtime.now())
    return known if known is not None and runtime.tags.allow(flight.tags, known.body) else None


async def ask_without_writes(runtime: Runtime, flight: Flight) -> tuple[Proof | None, Reading | None]:
    """The proof for the value that a flight without a lease computes itself; or a value that it computed before."""
    proof = await look_for_proof(runtime, flight)
    return proof, own_value(runtime, flight, proof)
