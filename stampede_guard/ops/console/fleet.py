"""What a console knows of its fleet: the servers, the watch, the guard. Opened at the first page, closed when idle.

A mounted application is told neither of the start nor of the end of its server. So the connections belong to a task:
it opens them, keeps them while pages are asked for, and closes them with the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stampede_guard.errors import Misuse, StoreError, StoreUnavailable
from stampede_guard.ops.console.thinning import Thinning
from stampede_guard.ops.fleet.herds import HerdStory, herds
from stampede_guard.ops.fleet.reaching import session_of
from stampede_guard.ops.fleet.snapshot import Adding, Snapshot, snapshot
from stampede_guard.ops.fleet.viewer import Viewer
from stampede_guard.stores.console.console import Console
from stampede_guard.stores.fleet.policies import LONGEST_POLICY, policy_of
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import HERD_KINDS
from stampede_guard.stores.fleet.sums import FunctionSums

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.jobs.scheduler import Jobs
    from stampede_guard.leases.client import Leases
    from stampede_guard.policy import Policy
    from stampede_guard.stores.fleet.stream import Happening
    from stampede_guard.stores.protocol import Session, Store

__all__ = ["Fleet", "Reached"]

IDLE_SECONDS = 90.0
"""After the last page, the connections are closed and the fleet publishes no more."""
KEPT_SLOTS = 120
"""Ten minutes of five-second slots are kept for figures."""
WINDOW_SLOTS = 6
"""Half a minute: what rates are made of."""
LINES_SECONDS = 2.0
"""How old lines of the fleet may be on a page. An open page is rendered more rarely."""
MAP_SECONDS = 10.0
"""Between two readings of a cluster's map, while one of its masters does not answer."""
SLOTS_AT_ONCE = 6
"""Asked for together. A slot has up to 20,000 fields, so all of them would be too much for one answer."""
MOST_POLICIES = 4
"""Of one function: its processes may run several versions of the program."""
CHANGING = 2
"""The newest slots may still grow."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The open connections. `steps`: a session like a guard's, for the steps of the protocol."""

    servers: Console
    steps: Session
    watch: Viewer


@dataclass(frozen=True, slots=True)
class _Told:
    """The newest lines of the fleet, asked for at a moment and on connections."""

    reached: Reached
    at: float
    lines: asyncio.Future[list[Happening]]

    def serves(self, reached: Reached, now: float) -> bool:
        if reached is not self.reached or now - self.at >= LINES_SECONDS:
            return False
        if not self.lines.done():
            return True
        return not self.lines.cancelled() and self.lines.exception() is None


class Fleet:
    """`guard`, `leases` and `jobs` are None where the console has none. `url` is for hiding its password in errors."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        *,
        guard: StampedeGuard | None = None,
        leases: Leases | None = None,
        jobs: Jobs | None = None,
        shows_names: bool = False,
        url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.store = store
        self.namespace = namespace
        self.guard = guard
        self.leases = jobs.leases if leases is None and jobs is not None else leases
        self.jobs = jobs
        self.shows_names = shows_names
        self.url = url
        self._clock = clock
        self._pause = pause
        self._used = 0.0
        self._reached: asyncio.Future[Reached] | None = None
        self._open: Reached | None = None
        self._holding: asyncio.Task[None] | None = None
        self._slots: dict[int, Mapping[bytes, bytes]] = {}
        self._thinning = Thinning()
        self._thin_to = 0
        """The newest slot that is kept in the form for figures only."""
        self._totals: dict[int, tuple[Mapping[bytes, bytes], FunctionSums]] = {}
        self._counted: dict[int, tuple[Mapping[bytes, bytes], Snapshot]] = {}
        self._seen: tuple[object, object, Snapshot] | None = None
        self._told: dict[tuple[str, int], _Told] = {}
        self._herds: tuple[Sequence[Happening], Sequence[HerdStory]] | None = None
        self._looked = 0.0
        self._mapped = -MAP_SECONDS
        self._looking: asyncio.Future[Any] | None = None

    # --- connections ----------------------------------------------------------------------------

    async def reached(self) -> Reached:
        """The connections. Raises `StoreError` if the store is away, and `Misuse` if it has no servers."""
        self._used = self._clock()
        loop = asyncio.get_running_loop()
        ready = self._reached
        if ready is None or ready.get_loop() is not loop or self._holding is None or self._holding.done():
            ready = self._reached = loop.create_future()
            ready.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._slots, self._thin_to, self._looking = {}, 0, None
            self._holding = loop.create_task(self._hold(ready), name="stampede_guard console")
        return await asyncio.shield(ready)

    async def _hold(self, ready: asyncio.Future[Reached]) -> None:
        try:
            async with (
                await Console.open(self.store) as servers,
                session_of(self.store) as steps,
                Viewer(servers, steps, self.namespace, shows_names=self.shows_names) as watch,
            ):
                self._open = Reached(servers, steps, watch)
                ready.set_result(self._open)
                while self._clock() - self._used < IDLE_SECONDS:
                    await self._pause(IDLE_SECONDS / 4)
        except (StoreError, Misuse) as error:
            if not ready.done():
                ready.set_exception(error)
        finally:
            if not ready.done():
                ready.set_exception(StoreUnavailable("the console was closed"))

    async def aclose(self) -> None:
        """Close the connections. The next page opens them again."""
        held, self._holding, self._reached = self._holding, None, None
        if held is not None:
            held.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await held

    # --- what every screen needs ----------------------------------------------------------------

    async def slots(self) -> dict[int, Mapping[bytes, bytes]]:
        """The fields of the complete slots of the last ten minutes, by number. Pages of one second share an answer."""
        reached = await self.reached()
        if self._looking is None or (self._looking.done() and self._clock() - self._looked >= 1.0):
            self._looked = self._clock()
            self._looking = asyncio.ensure_future(self._look(reached))
        try:
            return dict(await asyncio.shield(self._looking))
        except StoreError:
            # The watch does not begin again by itself.
            await self._close(reached)
            raise

    async def _close(self, reached: Reached) -> None:
        """Unless another page has done so, and these connections are new."""
        if reached is self._open:
            self._open = None
            await self.aclose()

    async def _look(self, reached: Reached) -> dict[int, Mapping[bytes, bytes]]:
        if reached.servers.unreached and self._clock() - self._mapped >= MAP_SECONDS:
            self._mapped = self._clock()
            with contextlib.suppress(StoreError):
                await reached.servers.renew()
        last = int(await reached.servers.now() // WATCHED.seconds) - 1
        wanted = range(last - KEPT_SLOTS + 1, last + 1)
        missing = [slot for slot in wanted if slot not in self._slots or slot > last - CHANGING]
        found = await self._read(reached.servers, missing, last - WINDOW_SLOTS)
        # An unchanged slot remains the same object, so nobody counts it again.
        kept = self._slots | {slot: new for slot, new in found.items() if new != self._slots.get(slot)}
        for slot in range(self._thin_to + 1 if self._thin_to else last, last - WINDOW_SLOTS + 1):
            if slot in kept and slot not in found:
                self._keep_thin(kept, slot)
        self._thin_to = last - WINDOW_SLOTS
        self._slots = {slot: kept[slot] for slot in wanted if slot in kept}
        return self._slots

    def _keep_thin(self, kept: dict[int, Mapping[bytes, bytes]], slot: int) -> None:
        """It has left the rates. Its counted sums stay."""
        before, kept[slot] = kept[slot], self._thinning.thin(kept[slot])
        total = self._totals.get(slot)
        if total is not None and total[0] is before:
            self._totals[slot] = kept[slot], total[1]

    async def _read(
        self, servers: Console, slots: Sequence[int], thin_to: int
    ) -> dict[int, Mapping[bytes, bytes]]:
        """In parts; slots up to `thin_to` are kept for figures only.

        A master that hangs makes only one part wait. Raises `StoreError` if no master answers.
        """
        found: dict[int, Mapping[bytes, bytes]] = {}
        while slots:
            part, rest = slots[:SLOTS_AT_ONCE], slots[SLOTS_AT_ONCE:]
            try:
                for slot, fields in (await servers.slots_of(self.namespace, WATCHED, part)).items():
                    found[slot] = self._thinning.thin(fields) if slot <= thin_to else fields
                    await asyncio.sleep(0)
            except StoreError as error:
                # All slots of this part may belong to masters that do not answer. Others have the next part.
                silent = servers.unreached
                if error not in silent.values() or all(one.address in silent for one in servers.masters):
                    raise
            slots = [slot for slot in rest if not servers.is_unreached(WATCHED.name(self.namespace, slot))]
        return found

    async def now(self) -> Snapshot:
        """The newest complete slots in which a viewer was open, at most half a minute."""
        slots = await self.slots()
        began = (await self.reached()).watch.began // WATCHED.seconds
        newest = max(slots, default=0)
        window = {
            slot: fields
            for slot, fields in slots.items()
            if slot > newest - WINDOW_SLOTS and (fields or slot > began)
        }
        # Open pages ask for the same: the application's event loop must not count for each of them.
        marks = [(slot, id(fields)) for slot, fields in window.items()]
        if self._seen is None or self._seen[0] != marks:
            self._counted = {slot: known for slot, known in self._counted.items() if slot in window}
            adding = Adding()
            for slot, fields in window.items():
                adding.add(await self._count(slot, fields))
                await asyncio.sleep(0)
            self._seen = marks, window, adding.sum
        return self._seen[2]

    async def _count(self, slot: int, fields: Mapping[bytes, bytes]) -> Snapshot:
        """One of the newest slots. An unchanged slot is counted once."""
        known = self._counted.get(slot)
        if known is None or known[0] is not fields:
            only = snapshot({slot: fields}, shows_names=self.shows_names)
            known = self._counted[slot] = fields, only
            # A fleet with a thousand functions takes 30 ms for each.
            await asyncio.sleep(0)
        return known[1]

    async def policies_of(self, title: str) -> list[Policy]:
        """What processes published of this function's policy within ten minutes, the newest first."""
        begin = f"policy:{title}\n".encode("utf-8", "replace")
        found: dict[str, Policy] = {}
        for _, fields in sorted((await self.slots()).items(), reverse=True):
            for name in fields:
                if name.startswith(begin) and len(name) <= len(begin) + LONGEST_POLICY:
                    text = name[len(begin) :].decode("utf-8", "replace")
                    if text not in found and (policy := policy_of(text)) is not None:
                        found[text] = policy
            if len(found) >= MOST_POLICIES:
                break
            await asyncio.sleep(0)
        return list(found.values())[:MOST_POLICIES]

    async def totals(self) -> dict[int, FunctionSums | None]:
        """The sums of all functions, by slot; None where no viewer was open. An unchanged slot is counted once."""
        slots = await self.slots()
        self._totals = {slot: known for slot, known in self._totals.items() if slot in slots}
        found: dict[int, FunctionSums | None] = {}
        for slot, fields in slots.items():
            known = self._totals.get(slot)
            if known is None or known[0] is not fields:
                counted = self._counted.get(slot)
                same = counted is not None and counted[0] is fields
                only = counted[1] if counted is not None and same else snapshot({slot: fields})
                known = self._totals[slot] = fields, only.all
                await asyncio.sleep(0)
            found[slot] = known[1] if fields else None
        return found

    async def happened(self, *, most: int = 200) -> Sequence[Happening]:
        """The newest of everything but herds, oldest first."""
        return await self._lines("happened", most)

    async def _lines(self, which: Literal["happened", "herd_lines"], most: int) -> Sequence[Happening]:
        """All viewers of about two seconds share one answer."""
        reached = await self.reached()
        told = self._told.get((which, most))
        if told is None or not told.serves(reached, self._clock()):
            asking = asyncio.ensure_future(getattr(reached.watch, which)(most=most))
            told = self._told[which, most] = _Told(reached, self._clock(), asking)
        try:
            return await asyncio.shield(told.lines)
        except StoreError:
            await self._close(reached)
            raise

    def tell_news(self) -> None:
        """Something was just done here: the next page shows it."""
        self._told = {}

    async def herds(self, *, lines: int) -> tuple[Sequence[Happening], Sequence[HerdStory]]:
        """The newest lines, and the herds that they tell of. Both are made once for all viewers of the same lines."""
        happened = await self._lines("herd_lines", lines)
        if self._herds is None or self._herds[0] is not happened:
            # Older faults have outlived the steps of their herds.
            first = min((one.at for one in happened if one.kind in HERD_KINDS), default=0.0)
            self._herds = happened, herds([one for one in happened if one.at >= first])
        return self._herds
