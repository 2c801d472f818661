"""What a guard knows about its store, for all its event loops: whether it serves, since when, and why not.

One outage is one line in the log of a process, even if many event loops, guards and tenants notice it. It is one event
for each guard. Its end is reported when the store is away for none of them. A refusal is reported when it begins and
when it ends. Refusals with different texts are separate: so a temporary one (a full disk) does not hide a lasting one
(a password).
"""

from __future__ import annotations

import logging
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.errors import StoreRefused, WrongTopology
from stampede_guard.events import BreakerClosed, BreakerOpened, NotStored, Recovered, Refused
from stampede_guard.values.forks import renew_in_children

if TYPE_CHECKING:
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.errors import RefusalKind
    from stampede_guard.events import Event

__all__ = ["Health", "StoreHealth"]

log = logging.getLogger("stampede_guard")

Status = Literal["ok", "away", "refused", "full"]

_TOPOLOGY = "topology"
"""The step of a wrong topology. It stands for all commands, until the store was away and may be another one."""
_DOOR = "door"
"""The step of a refused connection. It stands for all commands, until the store answers any of them.

1. A read fails with its connection. 2. The flight's acquire is refused: the password is another one. 3. The password is
right again. 4. Every call is a hit, so no flight acquires. Therefore the answer to a read must end the refusal.
"""
MOST_LINES, LINES_SECONDS = 5, 60.0
"""At most so many log lines about new refusals in so many seconds: a nearly full server refuses and recovers often."""


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """`ok`: the store serves, or no command was sent yet. `away`: it does not answer. `refused`: it refuses this client
    (a password, a permission, a certificate). `full`: it answers reads but refuses writes for now (no memory, no disk
    space, too few replicas, or it is itself a replica).

    `since`: seconds since 1970; None while nothing is known. `why` contains no keys and no passwords. `parts`: the
    servers of a cluster that are away; empty if the whole store is away.
    """

    status: Status
    since: float | None = None
    why: str = ""
    parts: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass(slots=True)
class _Episode:
    """A refusal that goes on. `steps`: the commands that were refused and have not succeeded since."""

    since: float
    why: str
    kind: RefusalKind
    steps: set[str] = field(default_factory=set)
    logged: bool = False


class _Away:
    """For each server that is away: the runtimes (`reporters`) that miss it. A stopped event loop misses none."""

    def __init__(self) -> None:
        self._missed: dict[str, weakref.WeakSet[Any]] = {}

    def note(self, reporter: Any, part: str, *, away: bool) -> bool:
        """Note a report. The result: whether it changed what all reporters together know."""
        missed = part in self._missed
        if away:
            self._missed.setdefault(part, weakref.WeakSet()).add(reporter)
            return not missed
        if not missed:
            return False
        self._missed[part].discard(reporter)
        if any(_runs(other) for other in self._missed[part]):
            return False
        del self._missed[part]
        return True

    def answered(self, reporter: Any) -> list[str]:
        """The servers that no running reporter misses. Their reporters stopped silently, and the store answers now."""
        found = [
            part
            for part, reporters in self._missed.items()
            if reporter not in reporters and not any(_runs(other) for other in reporters)
        ]
        for part in found:
            del self._missed[part]
        return found

    def forget(self, reporter: Any) -> None:
        for reporters in self._missed.values():
            reporters.discard(reporter)


def _runs(reporter: Any) -> bool:
    return bool(reporter.loop.is_running())


_away_at: dict[str, _Away] = {}
"""The key is the store's place: two guards on one server notice one outage."""
_lock = PassableLock()
renew_in_children(sys.modules[__name__], "_lock", PassableLock)
renew_in_children(sys.modules[__name__], "_away_at", dict)


class Health:
    """`place`: the address of the store, without credentials. It is empty for a store that only this guard has."""

    def __init__(
        self,
        hooks: Hooks,
        place: str = "",
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hooks = hooks
        self._wall = wall
        self._clock = clock
        self._place = place
        self.leave_the_parents()

    def leave_the_parents(self) -> None:
        """Forget everything after a fork, in the child: the child has not asked the store yet."""
        self.refusing = False
        """Whether any refusal goes on. Check this before you call `admitted`."""
        self._known: float | None = None
        self._parts: dict[str, tuple[float, str]] = {}
        self._away = _Away()
        self._private = _Away()
        self._refusals: dict[tuple[bool, str], _Episode] = {}
        self._lines: deque[float] = deque(maxlen=MOST_LINES)

    # --- away -----------------------------------------------------------------------------------

    def breaker(self, reporter: Any, *, away: bool, part: str = "", why: str = "", wrong: str = "") -> None:
        """Note what one event loop found out. `part`: one of the store's servers. `wrong`: what must be corrected."""
        with _lock:
            ours = self._away.note(reporter, part, away=away)
            first = self._everywhere.note(reporter, part, away=away)
            if ours:
                self._mark(part, away=away, why=why)
        if first:
            _write(part, away=away, why=why)
        if ours:
            self._tell(BreakerOpened(part) if away else BreakerClosed(part))
        if wrong:
            self.refused(StoreRefused(wrong, kind="configuration"), f"connect {part}")
        elif ours and not away and self.refusing:
            self.admitted(f"connect {part}")
            self.admitted(_TOPOLOGY)

    def answered(self, reporter: Any) -> None:
        """The store has answered. The reporter that missed it may have stopped without a report of its return."""
        with _lock:
            back = self._everywhere.answered(reporter)
            ours = self._away.answered(reporter)
            for part in ours:
                self._mark(part, away=False)
            if self._known is None:
                self._known = self._wall()
        for part in back:
            _write(part, away=False)
        for part in ours:
            self._tell(BreakerClosed(part))

    def forget(self, reporter: Any) -> None:
        """The reporter stops. It no longer misses any server."""
        with _lock:
            self._away.forget(reporter)
            self._everywhere.forget(reporter)

    @property
    def _everywhere(self) -> _Away:
        return _away_at.setdefault(self._place, _Away()) if self._place else self._private

    def _mark(self, part: str, *, away: bool, why: str = "") -> None:
        self._known = self._wall()
        if away:
            self._parts[part] = (self._known, why)
        else:
            self._parts.pop(part, None)

    # --- refusals -------------------------------------------------------------------------------

    def refused(self, error: StoreRefused, step: str) -> None:
        """The store refused `step` (a script's name)."""
        if isinstance(error, WrongTopology):
            # Commands for the few entries on this node succeed. They do not show that others will.
            step = _TOPOLOGY
        elif error.connecting or error.kind == "credentials":
            step = _DOOR
        place = (error.may_pass, str(error))
        with _lock:
            episode = self._refusals.get(place)
            begins = episode is None
            if episode is None:
                episode = self._refusals[place] = _Episode(self._wall(), str(error), error.kind)
                self.refusing = True
            episode.steps.add(step)
            write = not episode.logged and self._may_write()
            episode.logged = episode.logged or write
        if write and error.may_pass:
            log.warning(
                "the store takes no writes for now, so values are not stored and invalidations wait: %s",
                error,
            )
        elif write:
            log.error("the store refuses this guard, so every process computes for itself: %s", error)
        if begins:
            self._tell(Refused(error.kind, str(error), error.may_pass))

    def admitted(self, step: str) -> None:
        """The store has carried out `step`, so refusals of it are over. Check `refusing` first."""
        ended: list[tuple[bool, _Episode]] = []
        with _lock:
            self._known = self._wall()
            for place, episode in list(self._refusals.items()):
                episode.steps -= {step, _DOOR}
                if not episode.steps:
                    del self._refusals[place]
                    ended.append((place[0], episode))
            self.refusing = bool(self._refusals)
        for may_pass, episode in ended:
            if episode.logged and may_pass:
                log.warning("the store takes writes again; its refusal was: %s", episode.why)
            elif episode.logged:
                log.warning("the store lets this guard in again; its refusal was: %s", episode.why)
            self._tell(Recovered(episode.kind, episode.why, may_pass))

    def not_stored(self, function: str, name: str, error: StoreRefused) -> None:
        """A value was computed, served and sent to the waiters, but the store did not keep it."""
        self.refused(error, "keep")
        self._tell(NotStored(function, name, error.kind))

    def _may_write(self) -> bool:
        now = self._clock()
        if len(self._lines) == MOST_LINES and now - self._lines[0] < LINES_SECONDS:
            return False
        self._lines.append(now)
        return True

    def _tell(self, event: Event) -> None:
        if self._hooks:
            self._hooks.tell(event)

    # --- what is known --------------------------------------------------------------------------

    def look(self) -> StoreHealth:
        """What is known now. Sends no command."""
        with _lock:
            wrong = [known for known in self._refusals.values() if known.kind == "configuration"]
            if wrong:
                return StoreHealth("refused", wrong[0].since, wrong[0].why)
            if self._parts:
                since, why = min(self._parts.values())
                return StoreHealth("away", since, why, tuple(sorted(filter(None, self._parts))))
            for may_pass in (False, True):
                episodes = [episode for place, episode in self._refusals.items() if place[0] is may_pass]
                if episodes:
                    first = min(episodes, key=lambda episode: episode.since)
                    return StoreHealth("full" if may_pass else "refused", first.since, first.why)
            return StoreHealth("ok", self._known)


def _write(part: str, *, away: bool, why: str = "") -> None:
    what = f"the store's server {part}" if part else "the store"
    if away:
        known = f" ({why})" if why else ""
        log.warning(
            "%s is away%s: each process computes once per key and keeps the value; nothing is written until it returns",
            what,
            known,
        )
    else:
        log.warning("%s is back", what)
