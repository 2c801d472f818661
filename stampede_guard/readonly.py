"""A store that answers reads and takes no writes: too few replicas, a full disk, no memory, a replica.

The same is true of an entry whose invalidation waits in this process while its server answers: what the store has is
older, so it is not read; and others may have invalidated it since, with success.

It is not away, so nothing that somebody has invalidated may be served; and nothing can be stored, so without more every
call would compute. What this process has computed meanwhile counts, as long as it has proof that no invalidation was
done since: the entry's epoch and fence, and its tags' versions, which can be read, are what they were before the
computation began.

1. A computes, without a lease, and keeps the value. 2. Writes are taken again; B invalidates, and is told that it is
done. 3. Writes are refused. The store has neither value, so a read tells A nothing; the fence does.

A record that has come and gone meanwhile would leave no trace, so a proof holds for no longer than a record lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.core import flight as core
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Found
from stampede_guard.errors import StoreError
from stampede_guard.lastvalues import Proof
from stampede_guard.tagged import VersionsAsked

if TYPE_CHECKING:
    from stampede_guard.flight import Flight
    from stampede_guard.runtime import Runtime

__all__ = ["ask_without_writes", "look_for_proof", "own_value"]


async def look_for_proof(runtime: Runtime, flight: Flight) -> Proof | None:
    """What is changed by every invalidation from now on. None: that cannot be told."""
    until = runtime.now() + flight.plan.policy.record_ms / 1000
    try:
        tags = VersionsAsked(runtime, flight.tags) if flight.tags else None
        fence = await runtime.session.fence(flight.name)
        versions = await tags.answer() if tags is not None else []
    except StoreError:
        return None
    # A tag that has no version is not changed by one more invalidation.
    return None if None in versions else Proof(until, (fence, *versions))


def own_value(runtime: Runtime, flight: Flight, proof: Proof | None) -> Reading | None:
    """What this process has computed itself, fresh, and not invalidated since."""
    if proof is None or flight.newer_than or flight.outdates_holder:
        return None
    known = runtime.last.own(flight.name, proof, now=runtime.now())
    return known if known is not None and runtime.tags.allow(flight.tags, known.body) else None


async def ask_without_writes(
    runtime: Runtime, flight: Flight, *, wanted: bool
) -> tuple[Proof | None, core.Event]:
    """The answer for a flight that no lease is to be had for, and the proof for what it computes itself."""
    proof = await look_for_proof(runtime, flight)
    known = own_value(runtime, flight, proof)
    if known is not None:
        return proof, core.Answered(Found(known), runtime.draw(), flight.passengers.wanted)
    return proof, core.StoreFailed(away=True, wanted=wanted)
