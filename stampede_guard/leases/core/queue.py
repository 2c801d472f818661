"""Who waits for a lease, in order. A place lapses when its acquirer does not ask again in time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stampede_guard.leases.words import Ask, Owner

__all__ = ["MOST_WAITING", "Place", "Queue", "ahead", "joined", "live", "promoted", "without"]

MOST_WAITING = 1_000
"""Places in one queue. Who comes later asks now and then, without one."""


@dataclass(frozen=True, slots=True)
class Place:
    """`until`: on the back end's clock. `seconds`: what was asked for; a clock that is set back prolongs no place."""

    holder: str
    owner: Owner
    until: float
    seconds: float


Queue = tuple[Place, ...]


def live(queue: Queue, now: float) -> Queue:
    """Without those that have lapsed."""
    return tuple(
        place if place.until <= now + place.seconds else replace(place, until=now + place.seconds)
        for place in queue
        if now < place.until
    )


def ahead(queue: Queue, holder: str) -> int:
    """How many come before this one; all of them if it has no place."""
    for index, place in enumerate(queue):
        if place.holder == holder:
            return index
    return len(queue)


def joined(queue: Queue, ask: Ask, now: float) -> Queue:
    """With the asker at the place it has, or at the end; as it is if it does not queue, or the queue is full."""
    if ask.place <= 0:
        return queue
    place = Place(ask.holder, ask.owner, now + ask.place, ask.place)
    index = ahead(queue, ask.holder)
    if index == len(queue):
        return (*queue, place) if len(queue) < MOST_WAITING else queue
    return (*queue[:index], place, *queue[index + 1 :])


def without(queue: Queue, holder: str) -> Queue:
    return tuple(place for place in queue if place.holder != holder)


def promoted(queue: Queue, to: str) -> Queue:
    """With those first whose owner is called `to`: its process, pod, host or label. Otherwise in the order they had."""
    if not to:
        return queue
    return (*_called(queue, to, True), *_called(queue, to, False))


def _called(queue: Queue, to: str, wanted: bool) -> Iterable[Place]:
    for place in queue:
        owner = place.owner
        if (to in (owner.process, owner.pod, owner.host, owner.label)) == wanted:
            yield place
