"""What may break, and what the processes do about it."""

from __future__ import annotations

from typing import Any

from stampede_guard.core import breaker
from stampede_guard.core.entry import EMPTY
from tests.core.driver import Driver
from tests.core.moves import GAP, unowned_slots
from tests.core.world import (
    BROKEN,
    OFF,
    ON,
    Ghost,
    Process,
    World,
)


class Faults(Driver):
    """Each move takes one from the world's faults and gives the slack that this fault may cost."""

    def _fault(self, world: World, cost: int) -> World:
        return world._replace(faults=world.faults - 1, slack=world.slack + cost)

    def _crash(self, world: World, number: int) -> World:
        """The process is gone with its callers and its inbox. What it has sent may still be carried out."""
        process = world.processes[number]
        cost, ghosts = 0, list(world.ghosts)
        if process.flight is not None:
            if process.flight.pending[0] in ("ask", "publish", "release"):
                ghosts.append(Ghost(process.flight.name, process.flight.pending))
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

    def _lapse_slots(self, world: World) -> World:
        gone = unowned_slots(world, self.table)
        slots = tuple(slot for slot in self.table[world.entry].slots if slot.owner not in gone)
        return self.store.without(world, slots=slots)

    def _end_mark(self, world: World) -> World:
        """For a moment the key was not cacheable, and the moment is over."""
        return self.store.without(world, failure=None)

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
        """Lease and failure have more time left than they were given, so they end; their holder may be alive."""
        entry = self.table[world.entry]
        cost = entry.lease is not None or entry.failure is not None
        return self._fault(world, int(cost))._replace(now=world.now - 50)

    def _lose(self, world: World, number: int) -> World:
        """The connection is lost: no reply will come, and what was sent may or may not be carried out.

        Only a lost release costs a computation: it names no token, so it may yet take the flight's next lease.
        """
        flight = self._flight(world, number)
        process = world.processes[number]
        ghosts = list(world.ghosts)
        if flight.pending[0] in ("ask", "publish", "release"):
            ghosts.append(Ghost(flight.name, flight.pending))
        failed = breaker.failed(self.table[process.breaker])
        kind = flight.pending[0]
        world = self._fault(world, int(kind == "release"))._replace(ghosts=tuple(sorted(ghosts)))
        world = self._put(world, number, breaker=self.table.id(failed))
        if kind == "release":
            return self._released(world, number, flight, answered=False)
        return self._feed(world, number, self._not_answered(flight, away=failed.is_open, sent=True))

    def _probe(self, world: World, number: int) -> World:
        return self._answered_well(world, number)

    def _run_ghost(self, world: World, place: int) -> World:
        ghosts = list(world.ghosts)
        ghost = ghosts.pop(place)
        return self._run(world._replace(ghosts=tuple(ghosts)), ghost.flight, ghost.command)[0]

    def _give_back(self, world: World, number: int) -> World:
        """A landed flight's unanswered commands can no longer run: release what they may have got."""
        name, *rest = world.processes[number].releases
        world = world._replace(ghosts=tuple(ghost for ghost in world.ghosts if ghost.flight != name))
        return self.store.release(self._put(world, number, releases=tuple(rest)), name)

    def _gap(self, world: World, number: int) -> World:
        return self._put(self._fault(world, 1), number, link=BROKEN)

    def _deafen(self, world: World, number: int) -> World:
        """A message is lost, and the process notices that there was a gap."""
        world = self._put(self._fault(world, 0), number, inbox=world.processes[number].inbox[1:])
        return self._notice(world, number, GAP)
