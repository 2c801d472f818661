"""The world that the search walks through: one entry, some processes, and what is under way between them.

Everything is a tuple of small things, so that a world can be compared and hashed fast. Parts of the core (entries,
states, answers, messages) are kept in a `Table` and stand in the world as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stampede_guard.policy import Policy

NOON = 1_000_000
"""The store's clock at the beginning. It stands still unless a move says otherwise: every script of a run may see the
same microsecond, which is the worst that a clock can do without going back."""

LATER = 10**6
"""In seconds: when the holder of the last answer no longer counts as alive."""

SLOTS_MS = 10**6
"""What each computation beside the lease is given."""

OFF, OPEN, ON, BROKEN = range(4)
"""A subscription: none; at the store but not yet acknowledged; acknowledged; lost, and the process does not know."""

FAULTS = frozenset(
    {
        "crash",
        "lapse",
        "evict_value",
        "evict_record",
        "evict_waiters",
        "restart",
        "lose",
        "gap",
        "deaf",
        "fallback",
    }
)
"""Each costs at most one more computation; `Model` says which cost none. `clock` (a step back) is asked for by name."""

EVENTS = frozenset({"fail", "fail_private", "unstorable", "abandon", "cancel"})
"""What may happen without anything being broken: failing computations and callers that leave."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What to explore. `placement` fixes the process of each caller in turn; otherwise every choice is explored."""

    processes: int = 2
    callers: int = 2
    placement: tuple[int, ...] | None = None
    faults: int = 0
    kinds: frozenset[str] = FAULTS
    events: int = 0
    event_kinds: frozenset[str] = EVENTS
    invalidations: int = 0
    pending: int = 0
    """Invalidations that the store does not carry out at once: their process is told "pending". At most one, without
    faults: the store answers, and what is computed without a lease is held against all invalidations."""
    refreshes: int = 0
    draws: int = 0
    """Readers of a fresh value that are due to refresh it early."""
    demands: int = 0
    """Calls of `refresh()`: each of these callers must get what is computed after its call."""
    patients: int = 0
    """Callers with a stale value that wait for a while."""
    puts: int = 0
    """Values that are there without a computation: each takes a token and is stored under it."""
    bypassed: bool = False
    """All flights are: none asks the store."""
    subscribed: bool = True
    renewals: bool = False
    polls: bool = True
    listening_known: bool = True
    clock_goes_on: bool = True
    """False: the store that comes back after a loss of data has a clock that is behind."""
    stale_at_start: bool = False
    seen_at_start: bool = False
    """Each process has seen a fresh value (version 0) that the store no longer has, and invalidates nothing itself."""
    timed: bool = False
    """Follow until when a flight trusts its holder, and whether it knows that its lease was lost. Elsewhere nobody is
    trusted, which is the harder case: a flight that gets no answer computes without the store at once."""
    policy: Policy = field(default_factory=lambda: Policy(ttl=1000.0, error_ttl=1000.0))

    def __str__(self) -> str:
        parts = [f"{self.callers} callers, {self.processes} processes, {self.faults} faults"]
        parts += ["at " + ", ".join(map(str, self.placement))] if self.placement else []
        if self.faults and self.kinds != FAULTS:
            parts.append("(" + "/".join(sorted(self.kinds)) + ")")
        parts += [f"{self.invalidations} invalidations"] if self.invalidations else []
        parts += ["a pending invalidation"] if self.pending else []
        parts += [f"{self.events} of " + "/".join(sorted(self.event_kinds))] if self.events else []
        parts += [f"{self.refreshes} refreshes"] if self.refreshes else []
        parts += [f"{self.draws} early refreshes"] if self.draws else []
        parts += [f"{self.demands} calls of refresh()"] if self.demands else []
        parts += [f"{self.patients} patient callers"] if self.patients else []
        parts += [f"{self.puts} values set"] if self.puts else []
        parts += ["bypassed"] if self.bypassed else []
        parts += ["not yet subscribed"] if not self.subscribed else []
        parts += ["renewals"] if self.renewals else []
        parts += ["a stale value at first"] if self.stale_at_start else []
        parts += ["a value seen before"] if self.seen_at_start else []
        parts += ["timed"] if self.timed else []
        parts += ["liveness unknown"] if not self.listening_known else []
        parts += ["a clock that is behind after a loss of data"] if not self.clock_goes_on else []
        parts += ["nothing inline"] if not self.policy.inline_bytes else []
        return ", ".join(parts)


class Flight(NamedTuple):
    """One flight and what its driver waits for.

    `pending`: ("ask", inbox, newer_than) and ("publish", grant, outcome) are sent but not carried out;
    ("asked", answer) and ("published", stored) are carried out, with the reply on its way; ("compute", truth);
    ("release", outcome); ("wait",); ("pause",), before it asks again.
    A passenger is `4 * need + 2 * covered + before_compute`.

    What the search itself knows of the flight, and holds against its decisions: `heard_of_holder` (1: its last answer
    was "held", 2: by a suspect), `has_failed` (its last computation), `handed_out`, `patient` (callers with a stale
    value that wait) and `given_up` (such a caller has left). `clock` is the driver's, in seconds: 0 at the last answer,
    `LATER` once nothing from then counts.
    """

    name: str
    state: int
    pending: tuple[Any, ...]
    passengers: tuple[int, ...]
    kept: tuple[int, ...] = ()
    clock: int = 0
    heard_of_holder: int = 0
    has_failed: bool = False
    handed_out: bool = False
    patient: int = 0
    given_up: bool = False
    version: int = 0
    looked: int = -1


class Fallback(NamedTuple):
    """One caller's own computation beside the holder. `pending` is ("ask",), ("compute", grant, truth) or ("publish",
    grant, truth)."""

    name: str
    need: int
    pending: tuple[Any, ...]


class Process(NamedTuple):
    """`due`: tokens of fresh values whose reader is about to refresh them early."""

    alive: bool
    used: bool
    link: int
    breaker: int
    flights: int
    flight: Flight | None
    inbox: tuple[int, ...]
    missed: tuple[int, ...]
    fallback: Fallback | None
    renewal: int
    releases: tuple[str, ...]
    due: tuple[int, ...] = ()
    looks: tuple[tuple[int, int, int], ...] = ()
    pending: int = 0
    """The version that a pending invalidation of this process asks for; 0 = none."""

    @property
    def hears(self) -> bool:
        """Whether the store has a subscription of this process."""
        return self.alive and self.link in (OPEN, ON)

    @property
    def quiet(self) -> bool:
        """Nothing is under way here."""
        return (
            self.flight is None
            and not self.missed
            and not self.looks
            and self.fallback is None
            and not self.releases
            and not self.due
            and not self.inbox
            and not self.pending
        )


class Seen(NamedTuple):
    """What moves of others see of a process, and the messages that they send to it.

    `passes`: it is let through, for an uncacheable key. `token`: of the grant under which it computes, 0 if there is
    none, and None where that is not shown.
    """

    alive: bool
    hears: bool
    passes: bool
    token: int | None
    inbox: tuple[int, ...] = ()


class Ghost(NamedTuple):
    """A command whose sender has given up on it; it may still be carried out, once."""

    flight: str
    command: tuple[Any, ...]


class World(NamedTuple):
    """`truth` is the version in the database, `settled` that of the newest invalidation that has returned;
    `invalidations` are the versions of those on their way. `slack`: computations that may still be begun.
    `draws`: early refreshes to come; `drawn`: the newest token that one was meant for."""

    entry: int
    now: int
    epochs: int
    truth: int
    settled: int
    invalidations: tuple[int, ...]
    processes: tuple[Process, ...]
    ghosts: tuple[Ghost, ...]
    callers: int
    faults: int
    events: int
    spare_invalidations: int
    refreshes: int
    slack: int
    issued: int
    stored: int
    draws: int
    drawn: int
    tag: int = 0
    tags_made: int = 0
    spare_pending: int = 0
    demands: int = 0
    patients: int = 0
    spare_puts: int = 0
    puts: tuple[tuple[int, int], ...] = ()
    """The grant and version of each value that has its token and is not stored yet."""

    @property
    def quiet(self) -> bool:
        """Every caller that came has been served and nothing is under way."""
        return not (self.invalidations or self.puts) and all(process.quiet for process in self.processes)


def _with_quick_replace(kind: Any) -> None:
    """Give a named tuple a `_replace` that touches only what changes. The search spends a quarter of its time in it."""
    places = {name: place for place, name in enumerate(kind._fields)}
    new = tuple.__new__

    def _replace(self: Any, **changes: Any) -> Any:
        parts = list(self)
        for name, value in changes.items():
            parts[places[name]] = value
        return new(kind, parts)

    kind._replace = _replace


def with_process(world: World, number: int, changes: dict[str, Any], new: Any = tuple.__new__) -> World:
    """The world with another process of this number: two `_replace` in one."""
    process = list(world.processes[number])
    for name, value in changes.items():
        process[_PLACES[name]] = value
    processes = list(world.processes)
    processes[number] = new(Process, process)
    parts = list(world)
    parts[_PROCESSES] = tuple(processes)
    changed: World = new(World, parts)
    return changed


_PLACES = {name: place for place, name in enumerate(Process._fields)}
_PROCESSES = World._fields.index("processes")

for _kind in (Flight, Fallback, Process, Seen, World):
    _with_quick_replace(_kind)


class Table:
    """Numbers for hashable objects, so that worlds hash fast."""

    def __init__(self) -> None:
        self._ids: dict[Any, int] = {}
        self._things: list[Any] = []

    def id(self, thing: Any) -> int:
        # 1 == True == 1.0: things of different types must not meet. Nor must answers that differ in what they do not
        # compare: a stamp issues a token and leaves all else as it was.
        found = self._ids.setdefault((type(thing), thing, getattr(thing, "last", 0)), len(self._things))
        if found == len(self._things):
            self._things.append(thing)
        return found

    def __getitem__(self, number: int) -> Any:
        return self._things[number]


class Violation(Exception):
    """A move that breaks a promise."""

    move: tuple[Any, ...] = ()
