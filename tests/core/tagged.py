"""The world with one tag: what the driver does beside `decide` so that a tag's invalidation is never missed.

`invalidate` here is that of the tag, which may live on another node than the entry: no step touches both. A caller
reads the entry and the tag in either order; an answer or a message with a value is held against the tag as it is read
then; the tag's version is made sure of before a computation begins, and read once more with the publication.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stampede_guard.core import tags
from stampede_guard.core.asks import Found, Granted, Message
from stampede_guard.core.commands import Command, Compute, Publish
from stampede_guard.core.events import ComputationEnded, Heard, OutdatedUpTo, PublishAnswered
from tests.core.driver import aboard
from tests.core.model import Model
from tests.core.moves import GAP, Move
from tests.core.steps import Core, Store, too_old, version_of
from tests.core.world import BROKEN, ON, Flight, Process, Setup, Violation, World

UNREAD = -1
ABSENT = 0


@dataclass(frozen=True)
class Rules:
    """What is searched; a mutation replaces one of these."""

    is_current: Callable[..., bool] = tags.is_current
    ensures_first: bool = True
    holds_found_against_tags: bool = True
    holds_heard_against_tags: bool = True
    reads_again_at_publish: bool = True


class _Store(Store):
    def publish(self, world: World, name: str, grant: Granted, outcome: Any) -> tuple[World, bool]:
        """No fence is raised by a tag: what was computed before is stored, and must not be served."""
        after, stored = super().publish(world._replace(settled=0), name, grant, outcome)
        return after._replace(settled=world.settled), stored


class TagModel(Model):
    """`flight.version`: the tag's before the computation; `flight.looked`: as read with the publication."""

    def __init__(self, setup: Setup, core: Core | None = None, *, rules: Rules | None = None) -> None:
        super().__init__(setup, core)
        self.rules = rules if rules is not None else Rules()
        self.store = _Store(setup, self.core, self.table)

    def moves_of(self, number: int, process: Process, shared: World) -> list[Move]:
        flight = process.flight
        moves = super().moves_of(number, process, shared)
        if flight is not None and flight.pending[0] == "published" and flight.looked == UNREAD:
            moves.remove(("answer", number))
        for place, (_, body, version) in enumerate(process.looks):
            moves += [("look_at_value", number, place)] if body == UNREAD else []
            moves += [("look_at_tag", number, place)] if version == UNREAD else []
        match flight.pending[0] if flight is not None else None:
            case "publish" | "published" if flight is not None and flight.looked == UNREAD:
                moves.append(("look_at_own", number))
            case "check":
                moves.append(("check", number))
                if shared.faults and "lose" in self.setup.kinds:
                    moves.append(("lose", number))
            case "ensure" | "begin" | "believe" as kind:
                moves.append((str(kind), number))
        return moves

    def common_moves(self, world: World) -> list[Move]:
        evictable = world.faults and "evict_tag" in self.setup.kinds and world.tag
        return [*super().common_moves(world), *([("evict_tag",)] if evictable else [])]

    # --- the tag ---------------------------------------------------------------------------------

    def _is_current(self, body: bytes, version: int) -> bool:
        return self.rules.is_current(body, [None if version == ABSENT else _version(version)])

    def _execute_invalidation(self, world: World, place: int) -> World:
        waiting = list(world.invalidations)
        settled = max(world.settled, waiting.pop(place))
        slack = world.slack + 1
        return world._replace(invalidations=tuple(waiting), settled=settled, tag=ABSENT, slack=slack)

    def _evict_tag(self, world: World) -> World:
        return self._fault(world, 1)._replace(tag=ABSENT)

    def _restart(self, world: World) -> World:
        return super()._restart(world)._replace(tag=ABSENT)

    def _crash(self, world: World, number: int) -> World:
        flight = world.processes[number].flight
        begun = flight is not None and flight.pending[0] in ("ensure", "begin")
        return super()._crash(world._replace(slack=world.slack + begun), number)

    # --- a caller reads --------------------------------------------------------------------------

    def _arrive(self, world: World, number: int) -> World:
        world = self._put(world, number, used=True)._replace(callers=world.callers - 1)
        if self.table[world.processes[number].breaker].is_open:
            return self._join(world, number, world.settled)
        return self._looked(world, number, (world.settled, UNREAD, UNREAD))

    def _look_at_value(self, world: World, number: int, place: int) -> World:
        world, (need, _, version) = self._taken(world, number, place)
        return self._looked(world, number, (need, self.table.id(self.store.read_fresh(world)), version))

    def _look_at_tag(self, world: World, number: int, place: int) -> World:
        world, (need, body, _) = self._taken(world, number, place)
        return self._looked(world, number, (need, body, world.tag))

    def _taken(self, world: World, number: int, place: int) -> tuple[World, tuple[int, int, int]]:
        looks = list(world.processes[number].looks)
        taken = looks.pop(place)
        return self._put(world, number, looks=tuple(looks)), taken

    def _looked(self, world: World, number: int, look: tuple[int, int, int]) -> World:
        need, read, version = look
        process = world.processes[number]
        if UNREAD in (read, version):
            return self._put(world, number, looks=tuple(sorted((*process.looks, look))))
        body = self.table[read]
        if body is None or not self._is_current(body, version):
            return self._put(world, number, missed=tuple(sorted((*process.missed, need))))
        if version_of(body) < need:
            raise Violation(too_old(version_of(body), need))
        return world

    # --- what a flight finds and hears -----------------------------------------------------------

    def _answer(self, world: World, number: int) -> World:
        flight = self._flight(world, number)
        kind, reply = flight.pending
        if kind == "published":
            return self._published(world, number, flight, bool(reply))
        if isinstance(self.table[reply], Found) and self.rules.holds_found_against_tags:
            world = self._answered_well(world, number)
            return self._put(world, number, flight=flight._replace(pending=("check", reply)))
        return super()._answer(world, number)

    def _check(self, world: World, number: int) -> World:
        flight = self._flight(world, number)
        found: Found = self.table[flight.pending[1]]
        if self._is_current(found.reading.body, world.tag):
            return self._answered(world, number, found)
        # Asked again in the same breath: nobody else is covered by that.
        inbox = f"i{number}" if world.processes[number].link in (ON, BROKEN) else ""
        world = self._tell(world, number, OutdatedUpTo(found.reading.token))
        flight = self._flight(world, number)
        return self._put(world, number, flight=flight._replace(pending=self._question(flight, inbox)))

    def _wait(self, world: World, number: int, flight: Flight) -> World:
        message = None if not flight.kept or flight.kept[0] == GAP else self.table[flight.kept[0]]
        if (
            not self.rules.holds_heard_against_tags
            or message is None
            or message.reading is None
            or message.token <= self._state(flight).newer_than
        ):
            return super()._wait(world, number, flight)
        flight = flight._replace(pending=("believe", flight.kept[0]), kept=flight.kept[1:])
        return self._put(world, number, flight=flight)

    def _believe(self, world: World, number: int) -> World:
        flight = self._flight(world, number)
        message: Message = self.table[flight.pending[1]]
        world = self._put(world, number, flight=flight._replace(pending=("wait",)))
        assert message.reading is not None
        if not self._is_current(message.reading.body, world.tag):
            world = self._tell(world, number, OutdatedUpTo(message.token))
            message = Message("again", message.token)
        return self._feed(world, number, Heard(message, aboard(flight)))

    # --- what a flight computes ------------------------------------------------------------------

    def _carry_out(
        self, world: World, number: int, flight: Flight, command: Command, exempt: bool, version: int
    ) -> World:
        world = super()._carry_out(world, number, flight, command, exempt, version)
        now = world.processes[number].flight
        if now is not None and isinstance(command, Compute) and command.grant is not None:
            if self.rules.ensures_first:
                # Who joins before the computation has begun is marked then.
                return self._put(world, number, flight=now._replace(pending=("ensure",)))
        elif now is not None and isinstance(command, Compute | Publish):
            return self._put(world, number, flight=now._replace(looked=UNREAD))
        return world

    def _ensure(self, world: World, number: int) -> World:
        world, flight = self._ensured(world, self._flight(world, number))
        return self._put(world, number, flight=flight._replace(pending=("begin",)))

    def _ensured(self, world: World, flight: Flight) -> tuple[World, Flight]:
        if world.tag == ABSENT:
            world = world._replace(tag=world.tags_made + 1, tags_made=world.tags_made + 1)
        return world, flight._replace(version=world.tag)

    def _begin(self, world: World, number: int, *rest: Any, **kind: Any) -> World:
        """Of a flight; and, as a move, of its computation."""
        if rest:
            return super()._begin(world, number, *rest, **kind)
        flight = self._flight(world, number)
        passengers = tuple(passenger | 1 for passenger in flight.passengers)
        flight = flight._replace(pending=("compute", world.truth), passengers=passengers)
        return self._put(world, number, flight=flight)

    def _finish(self, world: World, number: int) -> World:
        flight = self._flight(world, number)
        version = flight.pending[1]
        if not self.rules.ensures_first:
            world, flight = self._ensured(world, flight)
            world = self._put(world, number, flight=flight)
        body = tags.sealed(b"v%d" % version, (_version(flight.version),))
        return self._feed(world, number, ComputationEnded(body))

    def _look_at_own(self, world: World, number: int) -> World:
        return self._put(world, number, flight=self._flight(world, number)._replace(looked=world.tag))

    def _published(self, world: World, number: int, flight: Flight, stored: bool) -> World:
        world = self._answered_well(world, number)
        outdated = self.rules.reads_again_at_publish and flight.looked != flight.version
        return self._feed(world, number, PublishAnswered(stored, outdated))


def _version(number: int) -> bytes:
    return b"%016d" % number
