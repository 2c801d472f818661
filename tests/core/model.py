"""Every move that the world can make. Its parts: `driver` flies the flights, `faults` breaks things."""

from __future__ import annotations

from dataclasses import replace

from stampede_guard.core.asks import Denied, Found, Granted
from stampede_guard.core.entry import EMPTY, Value
from stampede_guard.core.events import (
    Abandoned,
    ComputationEnded,
    ComputationFailed,
    Event,
    InvalidatedHere,
    Joined,
    OutdatedUpTo,
    RenewalRefused,
)
from stampede_guard.core.outcome import FlightOutcome
from stampede_guard.core.states import FlightKind
from tests.core.faults import Faults
from tests.core.moves import GAP, Move, common_moves, moves_of
from tests.core.steps import too_old, version_of
from tests.core.world import (
    BROKEN,
    NOON,
    OFF,
    ON,
    OPEN,
    Fallback,
    Process,
    Violation,
    World,
)

STALE = Value(b"v0", NOON - 10, total_ms=10**6, stale_ms=10**6, expires_us=10**12)


class Model(Faults):
    """`moves_of` and `common_moves` list what may happen next. `make` lets it happen, or raises `Violation`."""

    def start(self) -> World:
        setup = self.setup
        link = ON if setup.subscribed else OFF
        process = Process(True, False, link, self.calm, 0, None, (), (), None, -1, ())
        return World(
            entry=self.table.id(replace(EMPTY, value=STALE) if setup.stale_at_start else EMPTY),
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
            draws=setup.draws,
            drawn=0,
            spare_pending=setup.pending,
            demands=setup.demands,
            patients=setup.patients,
            spare_puts=setup.puts,
        )

    def moves_of(self, number: int, process: Process, shared: World) -> list[Move]:
        return moves_of(number, process, shared, self.setup, self.table)

    def common_moves(self, world: World) -> list[Move]:
        return common_moves(world, self.setup, self.table)

    def make(self, world: World, move: Move) -> World:
        after: World = getattr(self, "_" + move[0])(world, *move[1:])
        return after

    # --- callers ---------------------------------------------------------------------------------

    def _arrive(self, world: World, number: int) -> World:
        """A caller begins with a read, unless the store is away."""
        world = self._put(world, number, used=True)._replace(callers=world.callers - 1)
        if self._cut_off(world, number):
            return self._join(world, number, self._need(world, number))
        body = self.store.read_fresh(world)
        if body is None:
            missed = tuple(sorted((*world.processes[number].missed, world.settled)))
            return self._put(world, number, missed=missed)
        if version_of(body) < world.settled:
            raise Violation(too_old(version_of(body), world.settled))
        return world

    def _board(self, world: World, number: int) -> World:
        """A caller joins the open flight without a read."""
        flight = self._flight(world, number)
        if flight.handed_out and self.core.may_join(self._state(flight), 0.0, shares_uncached=True):
            raise Violation("callers join without a read a flight that has handed out an outcome")
        return self._join(world._replace(callers=world.callers - 1), number, self._need(world, number))

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
        return self._begin(world, number, (), token, kind="refresh")

    def _demand(self, world: World, number: int) -> World:
        """`refresh()` is called because the truth has changed: what is computed already is no answer."""
        token, truth = self.store.stored_token(world), world.truth + 1
        world = world._replace(demands=world.demands - 1, truth=truth, slack=world.slack + 1)
        kind: FlightKind = "refresh" if token else "foreground"
        world = self._begin(world, number, (4 * truth,), token, kind=kind)
        return self._tell(world, number, OutdatedUpTo(token, refresh=True))

    def _wait_patiently(self, world: World, number: int) -> World:
        """A caller with a stale value waits for a while; it begins a refresh if there is none."""
        world = world._replace(patients=world.patients - 1)
        flight = world.processes[number].flight
        if flight is None:
            world = self._begin(world, number, (), 0, kind="refresh", patient=1)
        else:
            world = self._put(world, number, flight=flight._replace(patient=flight.patient + 1))
        return self._tell(world, number, Joined(has_old=True, patient=True))

    def _give_up(self, world: World, number: int) -> World:
        """Its `soft_timeout` is over; it is served the stale value."""
        flight = self._flight(world, number)
        flight = flight._replace(patient=flight.patient - 1, given_up=True)
        return self._put(world, number, flight=flight)

    def _draw(self, world: World, number: int) -> World:
        """A reader of a fresh value is due. However many are, of one value, one computation is meant."""
        token = self.store.stored_token(world)
        process = world.processes[number]
        world = world._replace(
            draws=world.draws - 1, slack=world.slack + (token > world.drawn), drawn=max(world.drawn, token)
        )
        return self._put(world, number, due=tuple(sorted((*process.due, token))), used=True)

    def _refresh_early(self, world: World, number: int, place: int) -> World:
        """It begins a flight that nobody waits for, unless there is one, or no store to ask."""
        process = world.processes[number]
        due = list(process.due)
        token = due.pop(place)
        world = self._put(world, number, due=tuple(due))
        if process.flight is not None or self._cut_off(world, number):
            return world
        return self._begin(world, number, (), token, kind="early")

    # --- computations that end -------------------------------------------------------------------

    def _finish(self, world: World, number: int) -> World:
        version = self._flight(world, number).pending[1]
        # The store can be asked what others have invalidated, so it is not away.
        away = self.core.pending_counts_as_away and bool(world.processes[number].pending)
        away = away or self.setup.bypassed
        return self._feed(world, number, ComputationEnded(b"v%d" % version, away=away))

    def _fail(self, world: World, number: int) -> World:
        version = self._flight(world, number).pending[1]
        # With an error_ttl nobody tries again; without, every flight finds out for itself.
        cost = 0 if self.setup.policy.error_ttl else self._counted(world, number)
        world = world._replace(events=world.events - 1, slack=world.slack + cost)
        return self._feed(world, number, ComputationFailed(b"f%d" % version))

    def _fail_privately(self, world: World, number: int) -> World:
        return self._end_unstored(world, number, ComputationFailed(None), 10**9)

    def _finish_unstorable(self, world: World, number: int) -> World:
        """From now on the others are let through, and what they compute is not counted."""
        version = self._flight(world, number).pending[1]
        return self._end_unstored(world, number, ComputationEnded(b"v%d" % version, storable=False), version)

    def _abandon(self, world: World, number: int) -> World:
        return self._end_unstored(world, number, Abandoned(), 0)

    def _end_unstored(self, world: World, number: int, event: Event, version: int) -> World:
        world = world._replace(events=world.events - 1, slack=world.slack + self._counted(world, number))
        return self._feed(world, number, event, version)

    def _counted(self, world: World, number: int) -> int:
        grant = self._grant(self._flight(world, number))
        return int(grant is None or grant.leased)

    # --- invalidation ----------------------------------------------------------------------------

    def _invalidate(self, world: World, number: int) -> World:
        """The truth changes and the invalidation is sent; by a process (or -1: by one without any flights)."""
        truth = world.truth + 1
        invalidations = (*world.invalidations, truth)
        world = world._replace(
            truth=truth, invalidations=invalidations, spare_invalidations=world.spare_invalidations - 1
        )
        return world if number < 0 else self._feed(world, number, InvalidatedHere())

    def _execute_invalidation(self, world: World, place: int) -> World:
        """Carried out, and returned at once: a later return asks less of whoever comes in between."""
        waiting = list(world.invalidations)
        version = waiting.pop(place)
        world = world._replace(slack=world.slack + self._hits(world))
        newest = max(world.settled, version)
        world = self.store.invalidate(world)
        return world._replace(invalidations=tuple(waiting), settled=newest)

    def _invalidate_in_vain(self, world: World, number: int) -> World:
        """The store does not carry it out, and its caller is told "pending" at once."""
        truth = world.truth + 1
        world = self._put(world, number, pending=truth, used=True)
        world = world._replace(truth=truth, spare_pending=world.spare_pending - 1)
        return (
            world if world.processes[number].flight is None else self._feed(world, number, InvalidatedHere())
        )

    def _apply_pending(self, world: World, number: int) -> World:
        """The store carries it out, and its process hears of that at once."""
        version = world.processes[number].pending
        world = world._replace(slack=world.slack + self._hits(world), settled=max(world.settled, version))
        return self._put(self.store.invalidate(world), number, pending=0)

    def _need(self, world: World, number: int) -> int:
        """What a caller that comes to this process now must be served at least."""
        return max(world.settled, world.processes[number].pending)

    def _hits(self, world: World) -> int:
        """Whether there is a stored outcome, or a computation that could still be stored: one more is then needed."""
        entry = self.table[world.entry]
        fence = 0 if entry.record is None else entry.record.fence
        if (entry.value is not None and entry.value.is_fresh(world.now)) or entry.failure is not None:
            return 1
        if entry.lease is not None and entry.lease.token >= fence:
            return 1
        tokens = [self.seen(process).token for process in world.processes]
        assert None not in tokens, "an invalidation is shown the tokens of all"
        return int(any(token and token >= fence for token in tokens))

    # --- values without a computation -------------------------------------------------------------

    def _put_value(self, world: World) -> World:
        """Somebody knows a new truth, and takes a token for it. Nothing is stored yet."""
        world, granted = self.store.stamp(world._replace(truth=world.truth + 1))
        puts = tuple(sorted((*world.puts, (self.table.id(granted), world.truth))))
        return world._replace(puts=puts, spare_puts=world.spare_puts - 1)

    def _execute_put(self, world: World, place: int) -> World:
        """Stored or refused, and returned at once. From then on no caller may be served anything older.

        It may also be carried out long after its caller has given it up: after any invalidation.
        """
        waiting = list(world.puts)
        grant, version = waiting.pop(place)
        record, granted = self.table[world.entry].record, self.table[grant]
        is_same = record is not None and record.epoch == granted.epoch
        overtaken = record.fence > granted.token if is_same else world.faults < self.setup.faults
        world, stored = self.store.publish(world, "put", granted, FlightOutcome("value", b"v%d" % version))
        if not stored and not overtaken:
            raise Violation("a value was refused although nothing newer had come")
        settled = max(world.settled, version) if stored else world.settled
        return world._replace(puts=tuple(waiting), settled=settled)

    # --- subscriptions and renewal ---------------------------------------------------------------

    def _subscribe(self, world: World, number: int) -> World:
        return self._put(world, number, link=OPEN)

    def _confirm(self, world: World, number: int) -> World:
        """The acknowledgement arrives: there may have been a gap, so whoever waits looks again."""
        return self._notice(self._put(world, number, link=ON), number, GAP)

    def _notice_broken_link(self, world: World, number: int) -> World:
        """The socket's end is noticed and a new subscription opened: nothing that comes between tells the two apart."""
        return self._put(world, number, link=OPEN, inbox=())

    def _renew(self, world: World, number: int) -> World:
        flight = self._flight(world, number)
        link = world.processes[number].link
        renewal = self.store.renewal(
            flight.name, self._grant(flight).token, f"i{number}" if link in (ON, BROKEN) else ""
        )
        return self._put(world, number, renewal=self.table.id(renewal))

    def _execute_renewal(self, world: World, number: int) -> World:
        process, renewal = world.processes[number], self.table[world.processes[number].renewal]
        world, held = self.store.renew(world, renewal)
        world = self._put(world, number, renewal=-1)
        grant = self._grant(process.flight)
        if held or process.flight is None or grant is None or grant.token != renewal.token:
            return world
        return self._tell(world, number, RenewalRefused())

    # --- fallback --------------------------------------------------------------------------------

    def _fall_back(self, world: World, number: int) -> World:
        """The first passenger has waited too long and asks to compute beside the holder."""
        flight = self._flight(world, number)
        first, *rest = flight.passengers
        world = world._replace(faults=world.faults - 1, slack=world.slack + 1)
        fallback = Fallback(f"{number}.f", first // 4, ("ask",))
        return self._put(world, number, flight=flight._replace(passengers=tuple(rest)), fallback=fallback)

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
                raise Violation(too_old(version_of(answer.reading.body), fallback.need))
            assert isinstance(answer, Found | Denied)
            return self._put(world, number, fallback=None)
        _, grant, version = fallback.pending
        if fallback.pending[0] == "compute":
            return self._put(world, number, fallback=fallback._replace(pending=("publish", grant, version)))
        outcome = FlightOutcome("value", b"v%d" % version, own=True)
        world, _ = self.store.publish(world, fallback.name, self.table[grant], outcome)
        if version < fallback.need:
            raise Violation(too_old(version, fallback.need))
        return self._put(world, number, fallback=None)
