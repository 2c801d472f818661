"""Which moves there are in a world, and what kind each is."""

from __future__ import annotations

from typing import Any

from stampede_guard.core.entry import EMPTY, Failure, Lease, in_time
from stampede_guard.core.states import Asking, Computing, FlightState, Publishing
from tests.core.world import BROKEN, OFF, ON, OPEN, Flight, Process, Setup, Table, World

Move = tuple[Any, ...]
GAP = -1
"""Stands among the kept messages for a gap of the subscription."""

PROGRESS = frozenset(
    {
        "join_after_miss",
        "refresh_early",
        "execute",
        "answer",
        "finish",
        "hear",
        "execute_invalidation",
        "execute_put",
        "apply_pending",
        "subscribe",
        "confirm",
        "notice_broken_link",
        "execute_renewal",
        "step_fallback",
        "give_back",
        "probe",
        "look_at_value",
        "look_at_tag",
        "look_at_own",
        "check",
        "believe",
        "ensure",
        "begin",
    }
)
"""What happens by itself, sooner or later."""

TIMERS = frozenset({"poll", "ask_again", "later", "give_up", "lapse_unowned", "lapse_slots", "end_mark"})
"""What happens because time passes. Where no fault has happened, nobody may depend on these."""

PAUSES = frozenset({"ask_again"})
"""The timers that a flight has set itself, for less than a `poll_interval`."""


def moves_of(number: int, process: Process, shared: World, setup: Setup, table: Table) -> list[Move]:
    """Those of one process. They follow from the process and from what all share, whatever the others do."""
    moves: list[Move] = []
    if process.alive:
        _own_moves(moves, number, process, setup, table)
        _times(moves, number, process, shared, setup, table)
        _renewals(moves, number, process, shared, setup, table)
        if shared.events and process.flight is not None:
            _events(moves, number, process.flight, setup)
        if shared.faults:
            _process_faults(moves, number, process, setup.kinds, table)
    return moves


def common_moves(world: World, setup: Setup, table: Table) -> list[Move]:
    """All others."""
    moves: list[Move] = [("execute_invalidation", place) for place in range(len(world.invalidations))]
    moves += [("apply_pending", number) for number, process in enumerate(world.processes) if process.pending]
    moves += [("execute_put", place) for place in _different(world.puts)]
    moves += [("run_ghost", place) for place in _different(world.ghosts)]
    if world.faults < setup.faults and _is_unowned(world, table) and _ends(table[world.entry].lease, world):
        moves.append(("lapse_unowned",))
    _uncacheable(moves, world, setup, table)
    _arrivals(moves, world, setup, table)
    if world.spare_puts:
        moves.append(("put_value",))
    if world.spare_invalidations:
        _invalidations(moves, world, table)
    if world.spare_pending:
        moves += [
            ("invalidate_in_vain", number)
            for number in _interchangeable(world)
            if world.processes[number].alive
        ]
    if world.faults:
        _faults(moves, world, setup, table)
    return moves


def _different(things: tuple[Any, ...]) -> list[int]:
    """The places of things that are unlike those before them."""
    if len(things) < 2:
        return [0] if things else []
    return [place for place, thing in enumerate(things) if thing not in things[:place]]


def _own_moves(moves: list[Move], number: int, process: Process, setup: Setup, table: Table) -> None:
    if process.inbox and process.link in (ON, BROKEN):
        moves.append(("hear", number))
    flight = process.flight
    if flight is not None:
        match flight.pending[0]:
            case "ask" | "publish" | "release":
                moves.append(("execute", number))
            case "asked" | "published":
                moves.append(("answer", number))
            case "compute":
                moves.append(("finish", number))
            case "wait":
                if setup.polls:
                    moves.append(("poll", number))
            case "pause":
                moves.append(("ask_again", number))
    if flight is not None and flight.patient:
        moves.append(("give_up", number))
    if process.fallback is not None:
        moves.append(("step_fallback", number))
    moves += [("join_after_miss", number, place) for place in _different(process.missed)]
    moves += [("refresh_early", number, place) for place in _different(process.due)]
    if process.link == OFF:
        moves.append(("subscribe", number))
    elif process.link == OPEN:
        moves.append(("confirm", number))
    elif process.link == BROKEN:
        moves.append(("notice_broken_link", number))
    if table[process.breaker].is_open:
        moves.append(("probe", number))
    if process.releases:
        moves.append(("give_back", number))


def _times(
    moves: list[Move], number: int, process: Process, shared: World, setup: Setup, table: Table
) -> None:
    """The holder no longer counts as alive. That matters only where the store may fail to answer."""
    flight = process.flight
    if flight is None or flight.pending[0] not in ("ask", "asked", "pause"):
        return
    may_fail = process.pending or flight.pending[0] == "pause" or (shared.faults and "lose" in setup.kinds)
    state: FlightState = table[flight.state]
    if may_fail and state.trusted_until > flight.clock:
        moves.append(("later", number))


def _renewals(
    moves: list[Move], number: int, process: Process, shared: World, setup: Setup, table: Table
) -> None:
    if process.renewal >= 0:
        moves.append(("execute_renewal", number))
    elif setup.renewals and process.flight is not None:
        phase, lease = table[process.flight.state].phase, table[shared.entry].lease
        if isinstance(phase, Computing | Publishing) and phase.grant is not None:
            inbox = f"i{number}" if process.link in (ON, BROKEN) else ""
            # A renewal that would find everything as it is changes nothing.
            if lease is None or lease.missing_since_us is not None or lease.inbox != inbox:
                moves.append(("renew", number))


def _is_unowned(world: World, table: Table) -> bool:
    """Whether nobody renews the lease: its flight is not computing under it, or is gone."""
    lease = table[world.entry].lease
    if lease is None:
        return False
    for process in world.processes:
        flight = process.flight
        if flight is not None and flight.name == lease.owner:
            phase = table[flight.state].phase
            grant = getattr(phase, "grant", None)
            if grant is not None and grant.token == lease.token:
                return False
            if isinstance(phase, Asking) and flight.pending[0] == "asked":
                return False
    return True


def _uncacheable(moves: list[Move], world: World, setup: Setup, table: Table) -> None:
    entry = table[world.entry]
    if entry.failure is not None and entry.failure.passes:
        if _ends(entry.failure, world):
            moves.append(("end_mark",))
        if world.faults < setup.faults and unowned_slots(world, table):
            moves.append(("lapse_slots",))


def _ends(part: Lease | Failure, world: World) -> bool:
    """Whether its time will be over soon: not after a step of the clock, which nobody could wait for."""
    return in_time(part.expires_us, part.total_ms, world.now)


def unowned_slots(world: World, table: Table) -> set[str]:
    """Those of flights and fallbacks that are gone: nobody gives them back."""
    alive = {name for process in world.processes if process.alive for name in process.releases}
    for process in world.processes:
        alive |= {part.name for part in (process.flight, process.fallback) if part is not None}
    slots = [slot for slot in table[world.entry].slots if in_time(slot.expires_us, slot.total_ms, world.now)]
    return {slot.owner for slot in slots} - alive


def _arrivals(moves: list[Move], world: World, setup: Setup, table: Table) -> None:
    if world.callers:
        if setup.placement is not None:
            numbers = [setup.placement[setup.callers - world.callers]]
        else:
            numbers = _interchangeable(world)
        for number in numbers:
            process = world.processes[number]
            if process.alive:
                moves.append(("arrive", number))
                if process.flight is not None:
                    moves.append(("board", number))
    value = table[world.entry].value if world.draws else None
    if value is not None and value.is_fresh(world.now):
        moves += [("draw", number) for number in _interchangeable(world) if world.processes[number].alive]
    for kind, spare in (("refresh", world.refreshes), ("demand", world.demands)):
        for number in _interchangeable(world) if spare else ():
            process = world.processes[number]
            if process.alive and process.flight is None:
                moves.append((kind, number))
    if world.patients and table[world.entry].value is not None:
        numbers = [number for number in _interchangeable(world) if world.processes[number].alive]
        moves += [("wait_patiently", number) for number in numbers]


def _interchangeable(world: World) -> list[int]:
    """The processes that were used already and one of those that were not: untouched processes are alike."""
    numbers = []
    for number, process in enumerate(world.processes):
        numbers.append(number)
        if not process.used:
            break
    return numbers


def _invalidations(moves: list[Move], world: World, table: Table) -> None:
    moves.append(("invalidate", -1))
    for number, process in enumerate(world.processes):
        if process.flight is not None and isinstance(
            table[process.flight.state].phase, Computing | Publishing
        ):
            moves.append(("invalidate", number))


def _events(moves: list[Move], number: int, flight: Flight, setup: Setup) -> None:
    if flight.pending[0] == "compute":
        if "fail" in setup.event_kinds:
            moves.append(("fail", number))
        if "fail_private" in setup.event_kinds:
            moves.append(("fail_privately", number))
        if "unstorable" in setup.event_kinds:
            moves.append(("finish_unstorable", number))
        # "No passenger can take over": with none aboard. Others may join until the lease is given back.
        if "abandon" in setup.event_kinds and not flight.passengers:
            moves.append(("abandon", number))
    if "cancel" in setup.event_kinds:
        moves += [("leave", number, place) for place in _different(flight.passengers)]


def _faults(moves: list[Move], world: World, setup: Setup, table: Table) -> None:
    kinds = setup.kinds
    entry = table[world.entry]
    if "lapse" in kinds and entry.lease is not None and not _is_unowned(world, table):
        moves.append(("lapse",))
    if "evict_value" in kinds and entry.value is not None:
        moves.append(("evict_value",))
    if "evict_record" in kinds and entry.record is not None:
        moves.append(("evict_record",))
    if "evict_waiters" in kinds and entry.waiters:
        moves.append(("evict_waiters",))
    if "restart" in kinds and entry != EMPTY:
        moves.append(("restart",))
    if "clock" in kinds:
        moves.append(("clock",))


def _process_faults(
    moves: list[Move], number: int, process: Process, kinds: frozenset[str], table: Table
) -> None:
    flight = process.flight
    if "crash" in kinds and (flight is not None or process.fallback is not None):
        moves.append(("crash", number))
    if "gap" in kinds and process.link == ON:
        moves.append(("gap", number))
    if "deaf" in kinds and process.inbox and process.link == ON:
        moves.append(("deafen", number))
    if flight is None:
        return
    if "lose" in kinds and flight.pending[0] in ("ask", "asked", "publish", "published", "release"):
        moves.append(("lose", number))
    waits = bool(flight.passengers) and flight.pending[0] in ("wait", "compute")
    if "fallback" in kinds and process.fallback is None and waits:
        moves.append(("fall_back", number))
