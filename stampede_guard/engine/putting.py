"""Values that come from no flight: those that a face has already, and those that mode `shadow` keeps.

They are stored under a grant, as a flight stores its own. All functions raise `StoreError`, except `put`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from stampede_guard.core.scripts import Granted, Uncacheable
from stampede_guard.errors import StoreError
from stampede_guard.values.codec import encoded

if TYPE_CHECKING:
    from stampede_guard.core.entry import Reading
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan
    from stampede_guard.policy import Policy

__all__ = ["PutGrant", "admits", "granted_ahead", "publish", "put", "put_grant", "put_under", "stored"]

log = logging.getLogger("stampede_guard")

RELEASE_SECONDS = 0.5


async def stored(runtime: Runtime, *names: str) -> list[Reading | None]:
    """The stored values of these entries, in one round trip. This process does not remember them."""
    return await asyncio.gather(*map(runtime.session.read, names))


async def admits(runtime: Runtime, name: str, grant: Granted) -> bool:
    """Whether a value with this grant could still be stored, apart from a newer value."""
    return await runtime.session.admits(name, grant)


async def granted_ahead(
    runtime: Runtime, name: str, flight: str, policy: Policy, *, newer_than: int
) -> Granted | None:
    """A grant for a value that is computed later. Its lease is released at once: no caller should wait for it."""
    session = runtime.session
    try:
        answer = await session.acquire(name, flight=flight, policy=policy, newer_than=newer_than)
        if isinstance(answer, Granted | Uncacheable):
            # Release a slot, too. It would be taken for the record's lifetime, and the fleet has only a few.
            await session.release(name, flight=flight)
        return answer if isinstance(answer, Granted) else None
    except StoreError:
        session.forget(name, flight=flight)
        raise
    except asyncio.CancelledError:
        # The guard is closing. A task that begins now would not end.
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await session.release(name, flight=flight)
        raise


async def publish(
    runtime: Runtime, name: str, flight: str, grant: Granted, body: bytes, policy: Policy
) -> bool:
    """Store these bytes under a grant. Returns whether the store keeps them."""
    return await runtime.session.publish(
        name, flight=flight, grant=grant, outcome="value", body=body, policy=policy
    )


class PutGrant(NamedTuple):
    """The right to store a value that comes later, unless its entry is invalidated or computed before that."""

    flight: str
    grant: Granted


async def put_grant(runtime: Runtime, name: str, policy: Policy) -> PutGrant | None:
    """For `put`. None: a computation runs, or the store is away. Never raises `StoreError`."""
    if runtime.away_for(name):
        return None
    flight = runtime.new_id()
    try:
        grant = await granted_ahead(runtime, name, flight, policy, newer_than=0)
    except StoreError:
        return None
    return None if grant is None else PutGrant(flight, grant)


async def put_under(
    runtime: Runtime, plan: Plan, name: str, value: Any, policy: Policy, ahead: PutGrant
) -> bool:
    """Store a value under an earlier grant. Returns whether the store keeps it. Never raises `StoreError`."""
    body = encoded(plan.codec, value)
    try:
        kept = await publish(runtime, name, ahead.flight, ahead.grant, body, policy)
    except StoreError as error:
        log.debug("%s: a value given to the engine is not stored: %s", plan.title, error)
        return False
    runtime.published(name, value=kept)
    return kept


async def put(runtime: Runtime, plan: Plan, name: str, value: Any, policy: Policy) -> bool:
    """Store a value with these lifetimes, unless a computation runs: that one is newer. Returns whether the store keeps
    it. Never raises `StoreError`.
    """
    if runtime.away_for(name):
        return False
    flight, held, kept = runtime.new_id(), True, False
    session = runtime.session
    try:
        grant = await session.acquire(name, flight=flight, policy=policy)
        held = isinstance(grant, Granted | Uncacheable)
        if isinstance(grant, Granted):
            body = encoded(plan.codec, value)
            kept = await publish(runtime, name, flight, grant, body, policy) and name not in runtime.unkept
            runtime.published(name, value=True)
            held = False
    except StoreError as error:
        log.debug("%s: a value given to the engine is not stored: %s", plan.title, error)
    finally:
        if held:
            # Otherwise the next caller would wait for a lease without a computation.
            session.forget(name, flight=flight)
    return kept
