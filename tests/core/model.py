"""Every move that the world can make, driven by the real `begin` and `decide`.

A command is carried out in steps: sent, carried out at the store, reply arrived. Messages travel apart from replies, in
order per inbox, and may be arbitrarily late. The driver's duties, as the core states them, are spelled out here:

* Sending an ask or a publication marks everybody who has joined as covered; beginning to compute marks them as
  "before compute".
* Messages heard, and a gap of the subscription noticed, while the flight does not wait are kept and fed to it once it
  waits. Beginning to compute forgets them; asking forgets a gap.
* A flight that lands although one of its commands was never answered gives back its lease once those commands can no
  longer run.
* The value of a `Release` goes to those who joined before the computation began.
"""

from __future__ import annotations

from typing import Any

from stampede_guard.core import breaker
from stampede_guard.core.entry import EMPTY
from stampede_guard.core.flight import (
    Abandoned,
    Answered,
    Ask,
    Command,
    Compute,
    Computed,
    Computing,
    Deliver,
    Delivered,
    Event,
    Failed,
    Heard,
    Invalidated,
    Keep,
    Land,
    LookAgain,
    Outcome,
    Publish,
    PublishAnswered,
    Publishing,
    Release,
    StoreFailed,
    Wait,
)
from stampede_guard.core.scripts import Denied, Found, Granted
from tests.core.moves import GAP, Move, list_moves
from tests.core.steps import Core, Store, version_of
from tests.core.world import (
    BROKEN,
    NOON,
    OFF,
    ON,
    OPEN,
    Fallback,
    Flight,
    Ghost,
    Process,
    Setup,
    Table,
    Violation,
    World,
)


class Model:
    """`moves` lists what may happen next and `make` lets it happen; a broken promise raises `Violation`."""

    def __init__(self, setup: Setup, core: Core | None = None) -> None:
        self.setup = setup
        self.core = core if core is not None else Core()
        self.table = Table()
        self.store = Store(setup, self.core, self.table)
        self._decided: dict[tuple[Any, ...], tuple[int, Command]] = {}

    def start(self) -> World:
        setup = self.setup
        link = ON if setup.subscribed else OFF
        calm = self.table.id(breaker.Breaker())
        process = Process(True, False, link, calm, 0, None, (), (), None, -1, ())
        return World(
            entry=self.table.id(EMPTY),
            now=NOON,
            epochs=0,
            truth=0,
            settled=0,
            invalidations=(),
            processes=(process,) * setup.processes,
            ghosts=(),
            callers=setup.callers,
            faults=setup.faults,
            events=setup.events,
            spare_invalidations=setup.invalidations,
            refreshes=setup.refreshes,
            slack=1,
            issued=0,
            stored=0,
        )

    def moves(self, world: World) -> list[Move]:
        return list_moves(world, self.setup, self.table)

    def make(self, world: World, move: Move) -> World:
        after: World = getattr(self, "_" + move[0])(world, *move[1:])
        return after

    # --- the driver of one flight ----------------------------------------------------------------

    def _put(self, world: World, number: int, **changes: Any) -> World:
        processes = list(world.processes)
        processes[number] = processes[number]._replace(**changes)
        return world._replace(processes=tuple(processes))

    def _flight(self, world: World, number: int) -> Flight:
        flight = world.processes[number].flight
        assert flight is not None
        return flight

    def _state(self, flight: Flight) -> Any:
        return self.table[flight.state]

    def _feed(self, world: World, number: int, event: Event, version: int = 0) -> World:
        flight = self._flight(world, number)
        key = (flight.state, event)
        decided = self._decided.get(key)
        if decided is None:
            state, command = self.core.decide(self.table[flight.state], event, self.setup.policy)
            decided = self._decided[key] = self.table.id(state), command
        before = self._state(flight)
        exempt = isinstance(event, StoreFailed) or (isinstance(before, Computing) and before.grant is None)
        if isinstance(before, Publishing) and exempt and not isinstance(decided[1], Publish):
            world = world._replace(slack=world.slack + 1)
        flight = flight._replace(state=decided[0])
        return self._carry_out(world, number, flight, decided[1], exempt, version)

    def _carry_out(
        self, world: World, number: int, flight: Flight, command: Command, exempt: bool, version: int
    ) -> World:
        match command:
            case Ask():
                confirmed = world.processes[number].link in (ON, BROKEN)
                inbox = f"i{number}" if confirmed or self.core.names_unconfirmed_inbox else ""
                kept = tuple(what for what in flight.kept if what != GAP)
                flight = flight._replace(pending=("ask", inbox), kept=kept, passengers=_mark(flight, 2))
            case Compute(grant):
                if grant is not None:
                    world = world._replace(slack=world.slack - 1)
                    if world.slack < 0:
                        raise Violation("one computation too many")
                flight = flight._replace(pending=("compute", world.truth), kept=(), passengers=_mark(flight, 1))
            case Publish(grant, outcome):
                pending = ("publish", self.table.id(grant), self.table.id(outcome))
                flight = flight._replace(pending=pending, passengers=_mark(flight, 2))
            case Release(outcome):
                # A failure goes to all who are aboard now, a value to those who joined before it was computed.
                to = 0 if outcome is None else 1 if outcome.kind == "value" else 2
                flight = flight._replace(pending=("release", to, version), passengers=_mark(flight, 2))
            case Deliver(outcome, to):
                return self._hand_out(world, number, flight, outcome, to, exempt)
            case Wait():
                return self._wait(world, number, flight._replace(pending=("wait",)))
            case Keep():
                if flight.pending == ("wait",):
                    return self._wait(world, number, flight)
            case Land():
                if flight.passengers:
                    raise Violation("a flight landed and left passengers behind")
                releases = world.processes[number].releases
                if flight.unsure:
                    releases = (*releases, flight.name)
                return self._put(world, number, flight=None, releases=releases)
        return self._put(world, number, flight=flight)

    def _wait(self, world: World, number: int, flight: Flight) -> World:
        """Feed what was noticed while asking, one by one, until the flight no longer waits."""
        if not flight.kept:
            return self._put(world, number, flight=flight)
        first, *rest = flight.kept
        flight = flight._replace(kept=tuple(rest))
        world = self._put(world, number, flight=flight)
        wanted = bool(flight.passengers)
        event = LookAgain(wanted) if first == GAP else Heard(self.table[first], wanted)
        return self._feed(world, number, event)

    def _hand_out(
        self, world: World, number: int, flight: Flight, outcome: Outcome, to: str, exempt: bool
    ) -> World:
        if self.core.everyone_is_covered:
            to = "everyone"
        served = {"everyone": -1, "covered": 2, "before_compute": 1}[to]
        version = version_of(outcome.body)
        flight = self._serve(flight, served, version, exempt)
        world = self._put(world, number, flight=flight)
        return self._feed(world, number, Delivered(len(flight.passengers)))

    def _serve(self, flight: Flight, bit: int, version: int, exempt: bool) -> Flight:
        left = []
        for passenger in flight.passengers:
            if not passenger & bit and bit != -1:
                left.append(passenger)
            elif version < passenger // 4 and not exempt:
                raise Violation(_too_old(version, passenger // 4))
        return flight._replace(passengers=tuple(left))

    def _join(self, world: World, number: int, need: int) -> World:
        process = world.processes[number]
        if process.flight is not None:
            passengers = tuple(sorted((*process.flight.passengers, 4 * need)))
            return self._put(world, number, flight=process.flight._replace(passengers=passengers))
        return self._begin(world, number, (4 * need,), 0)

    def _begin(self, world: World, number: int, passengers: tuple[int, ...], newer_than: int) -> World:
        process = world.processes[number]
        away = self.table[process.breaker].is_open
        state, command = self.core.begin(away=away)
        name = f"{number}.{process.flights}"
        flight = Flight(name, newer_than, self.table.id(state), (), passengers)
        world = self._put(world, number, flights=process.flights + 1, used=True)
        return self._carry_out(world, number, flight, command, False, 0)

    def _answered_well(self, world: World, number: int) -> World:
        """Any reply closes the breaker."""
        closed = breaker.succeeded(self.table[world.processes[number].breaker])
        return self._put(world, number, breaker=self.table.id(closed))

    # --- callers ---------------------------------------------------------------------------------

    def _arrive(self, world: World, number: int) -> World:
        """A caller begins with a read, unless the store is away."""
        world = self._put(world, number, used=True)._replace(callers=world.callers - 1)
        if self.table[world.processes[number].breaker].is_open:
            return self._join(world, number, world.settled)
        body = self.store.read_fresh(world)
        if body is None:
            missed = tuple(sorted((*world.processes[number].missed, world.settled)))
            return self._put(world, number, missed=missed)
        if version_of(body) < world.settled:
            raise Violation(_too_old(version_of(body), world.settled))
        return world

    def _board(self, world: World, number: int) -> World:
        """A caller joins the open flight without a read."""
        return self._join(world._replace(callers=world.callers - 1), number, world.settled)

    def _join_after_miss(self, world: World, number: int, place: int) -> World:
        missed = list(world.processes[number].missed)
        need = missed.pop(place)
        return self._join(self._put(world, number, missed=tuple(missed)), number, need)

    def _leave(self, world: World, number: int, place: int) -> World:
        flight = self._flight(world, number)
        passengers = list(flight.passengers)
        passengers.pop(place)
        world = world._replace(events=world.events - 1)
        return self._put(world, number, flight=flight._replace(passengers=tuple(passengers)))

    def _refresh(self, world: World, number: int) -> World:
        """A flight that nobody waits for asks for something newer than what is stored. One computation is meant."""
        token = self.store.stored_token(world)
        world = world._replace(refreshes=world.refreshes - 1, slack=world.slack + (1 if token else 0))
        return self._begin(world, number, (), token)

    # --- commands of a flight --------------------------------------------------------------------

    def _execute(self, world: World, number: int) -> World:
        """The store carries out what the flight has sent."""
        flight = self._flight(world, number)
        world, reply = self._run(world, flight.name, flight.newer_than, flight.pending)
        flight = self._flight(world, number)
        if flight.pending[0] == "release":
            return self._released(world, number, flight)
        return self._put(world, number, flight=flight._replace(pending=reply))

    def _released(self, world: World, number: int, flight: Flight) -> World:
        _, to, version = flight.pending
        if to:
            flight = self._serve(flight, to, version, False)
        world = self._put(world, number, flight=flight)
        return self._feed(world, number, Delivered(len(flight.passengers)))

    def _run(
        self, world: World, name: str, newer_than: int, command: tuple[Any, ...]
    ) -> tuple[World, tuple[Any, ...]]:
        match command:
            case ("ask", inbox):
                world, answer = self.store.acquire(world, name, newer_than, inbox)
                return world, ("asked", self.table.id(answer))
            case ("publish", grant, outcome):
                world, stored = self.store.publish(world, name, self.table[grant], self.table[outcome])
                return world, ("published", stored)
            case _:
                return self.store.release(world, name), ()

    def _answer(self, world: World, number: int) -> World:
        """The reply arrives."""
        world = self._answered_well(world, number)
        flight = self._flight(world, number)
        kind, reply = flight.pending
        if kind == "published":
            return self._feed(world, number, PublishAnswered(reply))
        return self._feed(world, number, Answered(self.table[reply], 0.0, bool(flight.passengers)))

    def _finish(self, world: World, number: int) -> World:
        version = self._flight(world, number).pending[1]
        return self._feed(world, number, Computed(b"v%d" % version))

    def _fail(self, world: World, number: int) -> World:
        version = self._flight(world, number).pending[1]
        return self._feed(world._replace(events=world.events - 1), number, Failed(b"f%d" % version))

    def _fail_privately(self, world: World, number: int) -> World:
        return self._end_unstored(world, number, Failed(None), 10**9)

    def _finish_unstorable(self, world: World, number: int) -> World:
        version = self._flight(world, number).pending[1]
        return self._end_unstored(world, number, Computed(b"v%d" % version, storable=False), version)

    def _abandon(self, world: World, number: int) -> World:
        return self._end_unstored(world, number, Abandoned(), 0)

    def _end_unstored(self, world: World, number: int, event: Event, version: int) -> World:
        world = world._replace(events=world.events - 1, slack=world.slack + 1)
        return self._feed(world, number, event, version)

    def _poll(self, world: World, number: int) -> World:
        return self._feed(world, number, LookAgain(bool(self._flight(world, number).passengers)))

    def _hear(self, world: World, number: int) -> World:
        """The first message of the inbox arrives."""
        process = world.processes[number]
        first, *rest = process.inbox
        world = self._put(world, number, inbox=tuple(rest))
        return self._notice(world, number, first)

    def _notice(self, world: World, number: int, what: int) -> World:
        flight = world.processes[number].flight
        if flight is None:
            return world
        if flight.pending[0] == "compute" and what == GAP:
            return world
        flight = flight._replace(kept=(*flight.kept, what))
        if flight.pending == ("wait",):
            return self._wait(world, number, flight)
        return self._put(world, number, flight=flight)

    # --- invalidation ----------------------------------------------------------------------------

    def _invalidate(self, world: World, number: int) -> World:
        """The truth changes and the invalidation is sent; by a process (or -1: by one without any flights)."""
        truth = world.truth + 1
        invalidations = (*world.invalidations, truth)
        world = world._replace(
            truth=truth, invalidations=invalidations, spare_invalidations=world.spare_invalidations - 1
        )
        return world if number < 0 else self._feed(world, number, Invalidated())

    def _execute_invalidation(self, world: World, place: int) -> World:
        """Carried out, and returned at once: a later return asks less of whoever comes in between."""
        waiting = list(world.invalidations)
        version = waiting.pop(place)
        world = world._replace(slack=world.slack + self._hits(world))
        newest = max(world.settled, version)
        world = self.store.invalidate(world)
        return world._replace(invalidations=tuple(waiting), settled=newest)

    def _hits(self, world: World) -> int:
        """Whether there is a stored outcome, or a computation that could still be stored: one more is then needed."""
        entry = self.table[world.entry]
        fence = 0 if entry.record is None else entry.record.fence
        if entry.value is not None or entry.failure is not None:
            return 1
        if entry.lease is not None and entry.lease.token >= fence:
            return 1
        grants = [
            getattr(self._state(process.flight), "grant", None) if process.flight is not None else None
            for process in world.processes
        ]
        return int(any(grant is not None and grant.token >= fence for grant in grants))

    # --- subscriptions and renewal ---------------------------------------------------------------

    def _subscribe(self, world: World, number: int) -> World:
        return self._put(world, number, link=OPEN)

    def _confirm(self, world: World, number: int) -> World:
        """The acknowledgement arrives: there may have been a gap, so whoever waits looks again."""
        return self._notice(self._put(world, number, link=ON), number, GAP)

    def _notice_broken_link(self, world: World, number: int) -> World:
        return self._put(world, number, link=OFF, inbox=())

    def _renew(self, world: World, number: int) -> World:
        flight = self._flight(world, number)
        link = world.processes[number].link
        renewal = self.store.renewal(
            flight.name, self._state(flight).grant.token, f"i{number}" if link in (ON, BROKEN) else ""
        )
        return self._put(world, number, renewal=self.table.id(renewal))

    def _execute_renewal(self, world: World, number: int) -> World:
        world = self.store.renew(world, self.table[world.processes[number].renewal])
        return self._put(world, number, renewal=-1)

    # --- fallback --------------------------------------------------------------------------------

    def _fall_back(self, world: World, number: int) -> World:
        """The first passenger has waited too long and asks to compute beside the holder."""
        flight = self._flight(world, number)
        first, *rest = flight.passengers
        world = world._replace(faults=world.faults - 1, slack=world.slack + 1)
        fallback = Fallback(f"{number}.f", first // 4, ("ask",))
        return self._put(
            world, number, flight=flight._replace(passengers=tuple(rest)), fallback=fallback
        )

    def _step_fallback(self, world: World, number: int) -> World:
        fallback = world.processes[number].fallback
        assert fallback is not None
        if fallback.pending[0] == "ask":
            world, answer = self.store.fallback(world, fallback.name)
            if isinstance(answer, Granted):
                world = world._replace(slack=world.slack - 1)
                if world.slack < 0:
                    raise Violation("one computation too many: a fallback")
                pending = ("compute", self.table.id(answer), world.truth)
                return self._put(world, number, fallback=fallback._replace(pending=pending))
            if isinstance(answer, Found) and version_of(answer.reading.body) < fallback.need:
                raise Violation(_too_old(version_of(answer.reading.body), fallback.need))
            assert isinstance(answer, Found | Denied)
            return self._put(world, number, fallback=None)
        _, grant, version = fallback.pending
        if fallback.pending[0] == "compute":
            return self._put(world, number, fallback=fallback._replace(pending=("publish", grant, version)))
        outcome = Outcome("value", b"v%d" % version, own=True)
        world, _ = self.store.publish(world, fallback.name, self.table[grant], outcome)
        if version < fallback.need:
            raise Violation(_too_old(version, fallback.need))
        return self._put(world, number, fallback=None)

    # --- faults ----------------------------------------------------------------------------------

    def _fault(self, world: World, cost: int) -> World:
        return world._replace(faults=world.faults - 1, slack=world.slack + cost)

    def _crash(self, world: World, number: int) -> World:
        """The process is gone with its callers and its inbox. What it has sent may still be carried out."""
        process = world.processes[number]
        cost, ghosts = 0, list(world.ghosts)
        if process.flight is not None:
            if process.flight.pending[0] in ("ask", "publish", "release"):
                ghosts.append(Ghost(process.flight.name, _with_newer(process.flight)))
            cost = int(process.flight.pending[0] in ("compute", "publish"))
        cost += process.fallback is not None and process.fallback.pending[0] != "ask"
        dead = Process(False, True, OFF, process.breaker, process.flights, None, (), (), None, -1, ())
        world = self._fault(world, cost)._replace(ghosts=tuple(sorted(ghosts)))
        processes = list(world.processes)
        processes[number] = dead
        return world._replace(processes=tuple(processes))

    def _lapse(self, world: World) -> World:
        """The holder lives, but did not renew in time (or the lease was evicted)."""
        return self.store.without(self._fault(world, 1), lease=None)

    def _lapse_unowned(self, world: World) -> World:
        return self.store.without(world, lease=None)

    def _evict_value(self, world: World) -> World:
        return self.store.without(self._fault(world, 1), value=None)

    def _evict_record(self, world: World) -> World:
        return self.store.without(self._fault(world, 1), record=None)

    def _evict_waiters(self, world: World) -> World:
        return self.store.without(self._fault(world, 0), waiters=frozenset())

    def _restart(self, world: World) -> World:
        """The store comes back empty. Nobody is subscribed; the processes do not know it yet."""
        parts: dict[str, Any] = {part: getattr(EMPTY, part) for part in EMPTY.__slots__}
        world = self.store.without(self._fault(world, 1), **parts)
        processes = tuple(
            process._replace(link=BROKEN if process.link == ON else min(process.link, OFF))
            if process.link != BROKEN
            else process
            for process in world.processes
        )
        return world._replace(processes=processes)

    def _clock(self, world: World) -> World:
        return self._fault(world, 0)._replace(now=world.now - 50)

    def _lose(self, world: World, number: int) -> World:
        """The connection is lost: no reply will come, and what was sent may or may not be carried out.

        Only a lost release costs a computation: it names no token, so it may yet take the flight's next lease.
        """
        flight = self._flight(world, number)
        process = world.processes[number]
        ghosts = list(world.ghosts)
        if flight.pending[0] in ("ask", "publish", "release"):
            ghosts.append(Ghost(flight.name, _with_newer(flight)))
        failed = breaker.failed(self.table[process.breaker])
        kind = flight.pending[0]
        world = self._fault(world, int(kind == "release"))._replace(ghosts=tuple(sorted(ghosts)))
        flight = flight._replace(unsure=True)
        world = self._put(world, number, breaker=self.table.id(failed), flight=flight)
        if kind == "release":
            return self._released(world, number, flight)
        return self._feed(world, number, StoreFailed(away=failed.is_open))

    def _probe(self, world: World, number: int) -> World:
        return self._answered_well(world, number)

    def _run_ghost(self, world: World, place: int) -> World:
        ghost, world = self._take_ghost(world, place)
        *command, newer_than = ghost.command
        return self._run(world, ghost.flight, newer_than, tuple(command))[0]

    def _drop_ghost(self, world: World, place: int) -> World:
        return self._take_ghost(world, place)[1]

    def _take_ghost(self, world: World, place: int) -> tuple[Ghost, World]:
        ghosts = list(world.ghosts)
        ghost = ghosts.pop(place)
        return ghost, world._replace(ghosts=tuple(ghosts))

    def _give_back(self, world: World, number: int) -> World:
        """A landed flight's unanswered commands can no longer run: release what they may have got."""
        name, *rest = world.processes[number].releases
        return self.store.release(self._put(world, number, releases=tuple(rest)), name)

    def _gap(self, world: World, number: int) -> World:
        return self._put(self._fault(world, 1), number, link=BROKEN)

    def _deafen(self, world: World, number: int) -> World:
        """A message is lost, and the process notices that there was a gap."""
        world = self._put(self._fault(world, 0), number, inbox=world.processes[number].inbox[1:])
        return self._notice(world, number, GAP)


def _mark(flight: Flight, bit: int) -> tuple[int, ...]:
    return tuple(passenger | bit for passenger in flight.passengers)


def _with_newer(flight: Flight) -> tuple[Any, ...]:
    return (*flight.pending, flight.newer_than)


def _too_old(version: int, need: int) -> str:
    return f"a caller that began after invalidation {need} had returned was served version {version}"
