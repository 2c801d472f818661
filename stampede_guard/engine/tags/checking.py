"""Checks a flight's answers, messages and values against the tags of its entry. The rules are in `core.tags`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from stampede_guard.core.scripts import Answer, Found, Granted, Message
from stampede_guard.core.tags import Versions, is_current
from stampede_guard.engine.tags.versions import VersionsAsked, ensure, is_valid
from stampede_guard.errors import StoreError

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.loops.runtime import Runtime

__all__ = ["acquire", "ask_again", "believed", "versions_before"]


async def acquire(runtime: Runtime, flight: Flight) -> Answer:
    """The store's answer. A value whose tags have changed does not count. Raises `StoreError`."""
    while True:
        answer = await runtime.session.acquire(
            flight.name, flight=flight.id, policy=flight.plan.policy, newer_than=flight.state.newer_than
        )
        if not isinstance(answer, Found) or await is_valid(runtime, flight.tags, answer.reading):
            return answer
        flight.require_newer(answer.reading.token)


async def believed(runtime: Runtime, flight: Flight, message: Message) -> Message:
    """The message. If its value's tags have changed or cannot be read, only the message to ask again."""
    if not flight.tags or message.reading is None or message.token <= flight.state.newer_than:
        return message
    with contextlib.suppress(StoreError):
        if await is_valid(runtime, flight.tags, message.reading):
            return message
        flight.require_newer(message.token)
    return Message("again", message.token)


def ask_again(runtime: Runtime, flight: Flight) -> VersionsAsked | None:
    """Read the tags once more, for a value that will be published."""
    if not flight.tags:
        return None
        # A `ttl` function may choose a longer lifetime than the one for which the tags' versions were extended.
    longer = flight.lifetimes is not None and flight.lifetimes.tag_ms > flight.plan.policy.tag_ms
    return VersionsAsked(runtime, flight.tags, flight.lifetimes if longer else None)


async def versions_before(runtime: Runtime, flight: Flight, grant: Granted | None) -> Versions:
    """The tags' versions before the computation begins. None if unknown: such a value serves no later caller."""
    if not flight.tags:
        return ()
    known: Versions = ()
    if grant is None:
        known = runtime.tags.versions(flight.tags)
    else:
        with contextlib.suppress(StoreError):
            known = await ensure(runtime, flight.tags, flight.plan.policy)
    # Otherwise "unchanged" would give the old value the new versions.
    if flight.old is not None and not is_current(flight.old.body, known):
        flight.old = None
    return known
