"""Who waits for a lease, in order. A place lapses when its acquirer does not ask again in time.

When the lease becomes free the first few are *called*, and nobody else: a thousand waiters that all wake would ask a
thousand times for one grant. Each of them goes on asking now and then by itself, so a call may be lost. Who was called
and does not ask within its `turn` loses its place, so that a dead waiter costs the others seconds and not its place's
whole time. Whoever asks for a free lease out of turn has those before it called, once each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stampede_guard.leases.words import Ask, Owner

__all__ = [
    "CALLED", "MOST_WAITING", "Place", "Queue", "ahead", "called", "joined", "live", "named", "newly_called",
    "promoted", "without",
]  # fmt: skip

MOST_WAITING = 1_000
"""Places in one queue. Who comes later asks now and then, without one."""


CALLED = 3
"""How many are called when the lease becomes free: the first, and two for the case that it does not answer."""


@dataclass(frozen=True, slots=True)
class Place:
    """`until`: on the back end's clock. `seconds`: what was asked for; a clock that is set back prolongs no place.

    `turn`: seconds for which it holds once it is called, 0 = until its end. `called`: since it last asked.
    """

    holder: str
    owner: Owner
    until: float
    seconds: float
    turn: float = 0.0
    called: bool = False


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
    place = Place(ask.holder, ask.owner, now + ask.place, ask.place, ask.turn)
    index = ahead(queue, ask.holder)
    if index == len(queue):
        return (*queue, place) if len(queue) < MOST_WAITING else queue
    return (*queue[:index], place, *queue[index + 1 :])


def without(queue: Queue, holder: str) -> Queue:
    return tuple(place for place in queue if place.holder != holder)


def called(queue: Queue, now: float, most: int = CALLED) -> Queue:
    """With the first `most` called: their places end with their turn, unless they ask before."""
    return (*(place if place.called else _called_now(place, now) for place in queue[:most]), *queue[most:])


def _called_now(place: Place, now: float) -> Place:
    until = min(place.until, now + place.turn) if place.turn else place.until
    return replace(place, until=until, called=True)


def newly_called(before: Queue, after: Queue) -> tuple[str, ...]:
    """The holders that a step has called, in their order."""
    known = {place.holder for place in before if place.called}
    return tuple(place.holder for place in after[:CALLED] if place.called and place.holder not in known)


def promoted(queue: Queue, to: str) -> Queue:
    """With those first whose owner is called `to`: its process, pod, host or label. Otherwise in the order they had."""
    if not to:
        return queue
    first = named(queue, to)
    return (*first, *(place for place in queue if place not in first))


def named(queue: Queue, to: str) -> Queue:
    """Those whose owner is called so."""
    return tuple(
        place
        for place in queue
        if to in (place.owner.process, place.owner.pod, place.owner.host, place.owner.label)
    )
