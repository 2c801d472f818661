"""The waiters for a lease, in order. A place lapses when its acquirer does not ask again in time.

When the lease becomes free, only the first few waiters are *called*. If a thousand waiters woke up, they would send a
thousand requests for one grant. Each waiter also asks by itself from time to time, so a lost call does no harm. A
called waiter that does not ask within its `turn` loses its place. So a dead waiter delays the others for seconds, not
for the whole time of its place. If an acquirer asks for a free lease out of turn, the waiters before it are called,
once each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stampede_guard.leases.messages import LeaseRequest, Owner

__all__ = [
    "CALLED", "MOST_WAITING", "Place", "Queue", "ahead", "called", "joined", "live", "named", "newly_called",
    "promoted", "without",
]  # fmt: skip

MOST_WAITING = 1_000
"""Places in one queue. Later acquirers have no place; they ask from time to time."""


CALLED = 3
"""How many waiters are called when the lease becomes free: the first, and two in case it does not respond."""


@dataclass(frozen=True, slots=True)
class Place:
    """`until`: on the back end's clock. `seconds`: the requested time; if the clock is set back, a place is cut to it.

    `turn`: seconds that the place lasts once it is called, 0 = until its end. `called`: called since it last asked.
    """

    holder: str
    owner: Owner
    until: float
    seconds: float
    turn: float = 0.0
    called: bool = False


Queue = tuple[Place, ...]


def live(queue: Queue, now: float) -> Queue:
    """The queue without the lapsed places."""
    return tuple(
        place if place.until <= now + place.seconds else replace(place, until=now + place.seconds)
        for place in queue
        if now < place.until
    )


def ahead(queue: Queue, holder: str) -> int:
    """How many waiters are before this one; all of them if it has no place."""
    for index, place in enumerate(queue):
        if place.holder == holder:
            return index
    return len(queue)


def joined(queue: Queue, ask: LeaseRequest, now: float) -> Queue:
    """The queue with the acquirer, at its old place or at the end.

    Unchanged if the acquirer does not queue, or if the queue is full.
    """
    if ask.place <= 0:
        return queue
    place = Place(ask.holder, ask.owner, now + ask.place, ask.place, ask.turn)
    index = ahead(queue, ask.holder)
    if index == len(queue):
        return (*queue, place) if len(queue) < MOST_WAITING else queue
    return (*queue[:index], place, *queue[index + 1 :])


def without(queue: Queue, holder: str) -> Queue:
    return tuple(place for place in queue if place.holder != holder)


def called(queue: Queue, now: float, most: int = CALLED) -> Queue:
    """The queue with its first `most` waiters called. Their places end with their turn unless they ask before."""
    return (*(place if place.called else _called_now(place, now) for place in queue[:most]), *queue[most:])


def _called_now(place: Place, now: float) -> Place:
    until = min(place.until, now + place.turn) if place.turn else place.until
    return replace(place, until=until, called=True)


def newly_called(before: Queue, after: Queue) -> tuple[str, ...]:
    """The waiters that a step has called, in order."""
    known = {place.holder for place in before if place.called}
    return tuple(place.holder for place in after[:CALLED] if place.called and place.holder not in known)


def promoted(queue: Queue, to: str) -> Queue:
    """The queue with all waiters called `to` (process, pod, host or label) first. Otherwise the order stays."""
    if not to:
        return queue
    first = named(queue, to)
    return (*first, *(place for place in queue if place not in first))


def named(queue: Queue, to: str) -> Queue:
    """The waiters whose owner is called `to`."""
    return tuple(
        place
        for place in queue
        if to in (place.owner.process, place.owner.pod, place.owner.host, place.owner.label)
    )
