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

from math import inf
from typing import Any, cast

from stampede_guard.core import breaker
from stampede_guard.core.aboard import Aboard
from stampede_guard.core.asks import Held
from stampede_guard.core.commands import (
    AskStore,
    Command,
    Compute,
    Deliver,
    GiveBack,
    Keep,
    Land,
    Publish,
    Wait,
)
from stampede_guard.core.entry import Reading
from stampede_guard.core.events import (
    ComputationBegan,
    ComputationEnded,
    ComputationFailed,
    Delivered,
    Event,
    Heard,
    Joined,
    LookAgain,
    PublishAnswered,
    StoreAnswered,
    StoreFailed,
)
from stampede_guard.core.outcome import FlightOutcome
from stampede_guard.core.states import Computing, FlightKind, FlightState, Publishing
from tests.core.moves import GAP
from tests.core.steps import Core, Store, too_old, version_of
from tests.core.world import (
    BROKEN,
    LATER,
    ON,
    Flight,
    Process,
    Seen,
    Setup,
    Table,
    Violation,
    World,
    with_process,
)

SEEN = Reading(b"v0", 1, 10**6, 0, 10**6)


class Driver:
    """Carries out what `decide` says, for the flights of a world."""

    def __init__(self, setup: Setup, core: Core | None = None) -> None:
        self.setup = setup
        self.core = core if core is not None else Core()
        self.table = Table()
        self.store = Store(setup, self.core, self.table)
        self.calm = self.table.id(breaker.Breaker())
        self._decided: dict[tuple[Any, ...], tuple[int, Command]] = {}

    def _put(self, world: World, number: int, **changes: Any) -> World:
        return with_process(world, number, changes)

    def _flight(self, world: World, number: int) -> Flight:
        return cast(Flight, world.processes[number].flight)

    def _state(self, flight: Flight) -> FlightState:
        return cast(FlightState, self.table[flight.state])

    def _phase(self, flight: Flight) -> Any:
        return self._state(flight).phase

    def _grant(self, flight: Flight | None) -> Any:
        """The grant under which a flight computes, if there is one."""
        return None if flight is None else getattr(self._phase(flight), "grant", None)

    def seen(self, process: Process | Seen) -> Seen:
        """What the others see of a process."""
        if isinstance(process, Seen):
            return process
        phase = self._phase(process.flight) if process.flight is not None else None
        grant = getattr(phase, "grant", None)
        passes = isinstance(phase, Computing) and grant is not None and not grant.leased and process.alive
        return Seen(process.alive, process.hears, passes, 0 if grant is None else grant.token)

    def _not_answered(self, flight: Flight, *, away: bool, sent: bool) -> StoreFailed:
        seen = SEEN if away and self.setup.seen_at_start else None
        return StoreFailed(away, aboard(flight), float(flight.clock), 0.0, sent, seen=seen)

    def _decide(self, before: int, event: Event) -> tuple[int, Command]:
        # Answers do not compare the token issued last.
        last = getattr(event.answer, "last", 0) if isinstance(event, StoreAnswered) else 0
        key = (before, type(event), event, last)
        decided = self._decided.get(key)
        if decided is None:
            state, command = self.core.decide(self.table[before], event, self.setup.policy)
            if not self.setup.timed:
                state = state._replace(trusted_until=0.0, open_until=inf)
            decided = self._decided[key] = self.table.id(state), command
        return decided

    def _feed(self, world: World, number: int, event: Event, version: int = 0) -> World:
        flight = self._flight(world, number)
        decided = self._decide(flight.state, event)
        before = self._phase(flight)
        exempt = isinstance(event, StoreFailed) or (isinstance(before, Computing) and before.grant is None)
        # Without the store nobody knows what others have invalidated; of its own process everybody does.
        exempt = exempt and not self.setup.pending
        if isinstance(before, Publishing) and exempt and not isinstance(decided[1], Publish):
            world = world._replace(slack=world.slack + 1)
        if isinstance(decided[1], Deliver) and decided[1].outcome.reading is SEEN:
            # It may be old for callers elsewhere, but not for a caller here who asked for a new value.
            exempt = False
        flight = flight._replace(state=decided[0])
        flight = self._noticed(world, number, flight, event, decided[1])
        return self._carry_out(world, number, flight, decided[1], exempt, version)

    def _noticed(self, world: World, number: int, flight: Flight, event: Event, command: Command) -> Flight:
        """The flight with what the search knows of it, and the promises that a single decision must keep."""
        remembers = getattr(event, "seen", None) and self._takes_what_it_has_seen(flight)
        holder, pauses = flight.heard_of_holder, self.setup.policy.error_ttl > 0
        match command:
            case Compute(None) if self.setup.timed and holder and flight.clock != LATER:
                raise Violation("it computes without the store although the holder was alive a moment ago")
            case Compute(None) if remembers:
                raise Violation("it computes without the store although it has seen the value")
            case AskStore(after) if after and flight.clock == LATER:
                raise Violation("it goes on to trust a holder that it has not heard of for long")
            case Compute(grant, taken_over) if grant and grant.leased and (holder == 2) != taken_over:
                raise Violation("a takeover is not told, or none is told as one")
            case Land(_, pause) if flight.has_failed and not pause and pauses:
                raise Violation("stale hits ask at once after a failure")
            case Land(releases) if not releases and self._may_be_left(world, flight):
                raise Violation("a flight landed and may leave a lease behind")
            case Land() if flight.given_up and isinstance(event, LookAgain) and not flight.passengers:
                raise Violation("how slow a flight is was forgotten while its holder computes")
        match event:
            case StoreAnswered(answer):
                held = isinstance(answer, Held)
                flight = flight._replace(heard_of_holder=held + (held and answer.suspect))
            case ComputationFailed():
                flight = flight._replace(has_failed=True)
            case ComputationEnded():
                flight = flight._replace(has_failed=False)
            case PublishAnswered(stored):
                outcome_kept = self._state(flight).kept
                if outcome_kept and not stored:
                    raise Violation("what the store refused counts as kept")
        if isinstance(command, AskStore):
            flight = flight._replace(has_failed=False)
        return flight

    def _takes_what_it_has_seen(self, flight: Flight) -> bool:
        state = self._state(flight)
        return state.kind == "foreground" and not state.overtakes and state.newer_than < SEEN.token

    def _may_be_left(self, world: World, flight: Flight) -> bool:
        lease = self.table[world.entry].lease
        owned = lease is not None and lease.owner == flight.name
        return owned or any(ghost.flight == flight.name for ghost in world.ghosts)

    def _carry_out(
        self, world: World, number: int, flight: Flight, command: Command, exempt: bool, version: int
    ) -> World:
        match command:
            case AskStore(after):
                if after:
                    return self._put(world, number, flight=flight._replace(pending=("pause",)))
                return self._ask(world, number, flight)
            case Compute(grant):
                if grant is None and self._is_early(flight) and not flight.passengers:
                    raise Violation("an early refresh computes without a lease")
                if grant is not None and not grant.leased:
                    self._check_others_let_through(world, number)
                elif grant is not None:
                    world = world._replace(slack=world.slack - 1)
                    if world.slack < 0:
                        raise Violation("one computation too many")
                flight = flight._replace(
                    pending=("compute", world.truth), kept=(), passengers=_mark(flight, 1)
                )
                world = self._put(world, number, flight=flight)
                return self._tell(world, number, ComputationBegan(0.0))
            case Publish(grant, outcome):
                pending = ("publish", self.table.id(grant), self.table.id(outcome))
                flight = flight._replace(pending=pending, passengers=_mark(flight, 2))
            case GiveBack(outcome):
                # A failure goes to all who are aboard now, a value to those who joined before it was computed.
                to = 0 if outcome is None else 1 if outcome.kind == "value" else 2
                flight = flight._replace(pending=("release", to, version), passengers=_mark(flight, 2))
            case Deliver(outcome, to, keeps):
                if keeps and self.setup.bypassed:
                    raise Violation("a process keeps what it computed without leave to use the store")
                if keeps and version_of(outcome.body) < world.processes[number].pending:
                    raise Violation("a process keeps what it has itself invalidated")
                return self._hand_out(world, number, flight, outcome, to, exempt)
            case Wait():
                if self._is_early(flight) and not flight.passengers:
                    raise Violation("an early refresh waits for a holder")
                return self._wait(world, number, flight._replace(pending=("wait",)))
            case Keep():
                if flight.pending == ("wait",):
                    return self._wait(world, number, flight)
            case Land(unsure):
                if flight.passengers:
                    raise Violation("a flight landed and left passengers behind")
                releases = world.processes[number].releases
                if unsure:
                    releases = (*releases, flight.name)
                return self._put(world, number, flight=None, releases=releases)
        return self._put(world, number, flight=flight)

    def _ask(self, world: World, number: int, flight: Flight) -> World:
        if self.setup.bypassed:
            raise Violation("a bypassed flight asks the store")
        confirmed = world.processes[number].link in (ON, BROKEN)
        inbox = f"i{number}" if confirmed or self.core.names_unconfirmed_inbox else ""
        kept = tuple(what for what in flight.kept if what != GAP)
        flight = flight._replace(
            pending=self._question(flight, inbox), kept=kept, passengers=_mark(flight, 2)
        )
        world = self._put(world, number, flight=flight)
        if world.processes[number].pending:
            return self._feed(world, number, self._not_answered(flight, away=True, sent=False))
        return world

    def _question(self, flight: Flight, inbox: str) -> tuple[Any, ...]:
        return ("ask", inbox, self._state(flight).newer_than)

    def _tell(self, world: World, number: int, event: Event) -> World:
        """Something happens that changes what the flight knows, and not what it does."""
        flight = self._flight(world, number)
        state, command = self._decide(flight.state, event)
        if not isinstance(command, Keep):
            raise Violation(f"{type(event).__name__} led to {command}")
        return self._put(world, number, flight=flight._replace(state=state))

    def _is_early(self, flight: Flight) -> bool:
        return self._state(flight).kind == "early"

    def _check_others_let_through(self, world: World, number: int) -> None:
        """How many compute beside each other is bounded, unless a fault has lost the slots."""
        seen = [self.seen(process) for process in world.processes]
        computing = 1 + sum(process.passes for process in seen) - seen[number].passes
        if computing > self.setup.policy.uncacheable_limit and world.faults == self.setup.faults:
            raise Violation(f"{computing} were let through at once")

    def _wait(self, world: World, number: int, flight: Flight) -> World:
        """Feed what was noticed while asking, one by one, until the flight no longer waits."""
        if not flight.kept:
            return self._put(world, number, flight=flight)
        first, *rest = flight.kept
        flight = flight._replace(kept=tuple(rest))
        world = self._put(world, number, flight=flight)
        if first == GAP:
            return self._feed(world, number, LookAgain(aboard(flight)))
        return self._feed(world, number, Heard(self.table[first], aboard(flight)))

    def _hand_out(
        self, world: World, number: int, flight: Flight, outcome: FlightOutcome, to: str, exempt: bool
    ) -> World:
        if self.core.everyone_is_covered:
            to = "everyone"
        if outcome.reading is not None and outcome.reading.token <= self._state(flight).newer_than:
            raise Violation("a refresh was answered with what it was to replace")
        served = {"everyone": -1, "covered": 2, "before_compute": 1}[to]
        version = version_of(outcome.body)
        flight = self._serve(flight, served, version, exempt)
        world = self._put(world, number, flight=flight)
        return self._feed(world, number, Delivered(aboard(flight)))

    def _serve(self, flight: Flight, bit: int, version: int, exempt: bool) -> Flight:
        left = []
        for passenger in flight.passengers:
            if not passenger & bit and bit != -1:
                left.append(passenger)
            elif version < passenger // 4 and not exempt:
                raise Violation(too_old(version, passenger // 4))
        return flight._replace(passengers=tuple(left), patient=0, handed_out=True)

    def _join(self, world: World, number: int, need: int) -> World:
        process = world.processes[number]
        if process.flight is not None:
            passengers = tuple(sorted((*process.flight.passengers, 4 * need)))
            world = self._put(world, number, flight=process.flight._replace(passengers=passengers))
            return self._tell(world, number, Joined(has_old=False))
        return self._begin(world, number, (4 * need,), 0)

    def _begin(
        self,
        world: World,
        number: int,
        passengers: tuple[int, ...],
        newer_than: int,
        *,
        kind: FlightKind = "foreground",
        patient: int = 0,
    ) -> World:
        process = world.processes[number]
        kind = "bypassed" if self.setup.bypassed else kind
        state, command = self.core.begin(kind, away=self._cut_off(world, number), newer_than=newer_than)
        flight = Flight(f"{number}.{process.flights}", self.table.id(state), (), passengers, patient=patient)
        world = self._put(world, number, flights=process.flights + 1, used=True)
        return self._carry_out(world, number, flight, command, False, 0)

    def _cut_off(self, world: World, number: int) -> bool:
        """Whether the store is not asked: it is away, or an invalidation of this process waits for it."""
        process = world.processes[number]
        return bool(process.pending) or self.table[process.breaker].is_open

    def _answered_well(self, world: World, number: int) -> World:
        """Any reply closes the breaker."""
        if world.processes[number].breaker == self.calm:
            return world
        closed = breaker.succeeded(self.table[world.processes[number].breaker])
        return self._put(world, number, breaker=self.table.id(closed))

    # --- commands of a flight --------------------------------------------------------------------

    def _execute(self, world: World, number: int) -> World:
        """The store carries out what the flight has sent."""
        flight = self._flight(world, number)
        world, reply = self._run(world, flight.name, flight.pending)
        flight = self._flight(world, number)
        if flight.pending[0] == "release":
            return self._released(world, number, flight)
        return self._put(world, number, flight=flight._replace(pending=reply))

    def _released(self, world: World, number: int, flight: Flight, *, answered: bool = True) -> World:
        _, to, version = flight.pending
        if to:
            flight = self._serve(flight, to, version, False)
        world = self._put(world, number, flight=flight)
        return self._feed(world, number, Delivered(aboard(flight), answered))

    def _run(self, world: World, name: str, command: tuple[Any, ...]) -> tuple[World, tuple[Any, ...]]:
        match command:
            case ("ask", inbox, newer_than):
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
        return self._answered(world, number, self.table[reply])

    def _answered(self, world: World, number: int, answer: Any) -> World:
        flight = self._flight(world, number)._replace(clock=0)
        world = self._put(world, number, flight=flight)
        return self._feed(world, number, StoreAnswered(answer, aboard(flight), 0.0, 0.0))

    def _poll(self, world: World, number: int) -> World:
        return self._feed(world, number, LookAgain(aboard(self._flight(world, number))))

    def _ask_again(self, world: World, number: int) -> World:
        """The pause between two asks is over."""
        return self._ask(world, number, self._flight(world, number))

    def _later(self, world: World, number: int) -> World:
        return self._put(world, number, flight=self._flight(world, number)._replace(clock=LATER))

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


def aboard(flight: Flight) -> Aboard:
    wanting, count = len(flight.passengers), len(flight.passengers) + flight.patient
    return Aboard(count, wanting, waits=count > 0)


def _mark(flight: Flight, bit: int) -> tuple[int, ...]:
    return tuple(passenger | bit for passenger in flight.passengers)
