"""Events: what happens in a guard, as frozen objects that every hook receives.

    def hook(event: Event) -> None: ...
    guard = StampedeGuard.from_url("redis://...", hooks=(hook,))

A hook is called in the event loop, at once. So it must be short and must not block. If it raises, the error is logged
once and harms no caller. For `Hit`, `Stale`, `Miss`, `Waited`, `Refreshed` and `Invalidated`, a hook runs in the
context of the caller, whose trace is then the current one. For `Started` it runs in the context of the computation. For
the other events the context is not defined.

A hook that traces may also have a method `traceparent(flight: str) -> str | None`. It returns the W3C traceparent of
this flight's computation (version 00, 55 characters). It travels with the wake-up to the processes that wait, which
give it to their hooks in `Waited.trace`. Anything else is ignored.

| event | one per |
|---|---|
| `Hit`, `Stale`, `Miss` | call |
| `Waited` | `Miss`, and per `Stale` whose caller waited (`soft_timeout`, or a computation within the request) |
| `Refreshed` | `refresh()`, which reports no `Miss` and no `Waited`, because it does not look for a value |
| `Started`, `Computed` | computation, also of a fallback |
| `Collapsed` | flight that served more callers than it made computations |
| `Fallback` | caller that tried one |
| `TimedOut` | wait, computation or fallback that took too long |
| `TakenOver`, `LeaseLapsed` | fault |
| `Compared` | look of mode `shadow` |
| `BreakerOpened`, `BreakerClosed` | change and server; the event loops of a guard report one outage together |
| `Refused`, `Recovered` | change, for each text of a refusal |
| `NotStored` | value that was computed but that the store did not keep, or that cannot be stored |
| `Stored` | computed value that the store keeps |
| `RoundTrip` | sample: a command of a tick of the event loop and its answer, up to 20 a second for each connection |
| `L1Sized` | change of the copies of an event loop by 6 % and at least 4 KiB, and their end |
| `Invalidated` | `invalidate()` |
| `LeaseWon`, then `LeaseReleased` or `HoldLost` | lease of `stampede_guard.leases` that was held |
| `LeaseSkipped` | attempt that ended because another holder has the lease |
| `JobStarted`, then `JobEnded` | slot of a job that this worker claimed; only `JobEnded` if it did not run |
| `JobOnTime` or `JobOverdue` | job, in each worker that begins to follow it, and then for each change |

Two fields are in every event about an entry. `function` is its name in logs and metrics: a function's name; the `name=`
of a `get_or_compute` or `single`, or just `get_or_compute`; the name of an election, a job or an exclusive function, or
just `hold`. It never contains a part of a key or a name made at run time. `entry` is the complete name. It contains
values of parameters, so it is for operators. Never use it as a label of a metric or write it to a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from stampede_guard.errors import RefusalKind

__all__ = [
    "BreakerClosed",
    "BreakerOpened",
    "Collapsed",
    "Compared",
    "Comparison",
    "Computed",
    "Event",
    "Fallback",
    "FallbackOutcome",
    "Hit",
    "HoldLost",
    "Hook",
    "Invalidated",
    "JobEnded",
    "JobOnTime",
    "JobOverdue",
    "JobStarted",
    "L1Sized",
    "LeaseLapsed",
    "LeaseReleased",
    "LeaseSkipped",
    "LeaseWon",
    "Miss",
    "NotStored",
    "Recovered",
    "Refreshed",
    "Refused",
    "RoundTrip",
    "Source",
    "Stale",
    "Started",
    "Stored",
    "TakenOver",
    "TimedOut",
    "WaitOutcome",
    "Waited",
]


Source = Literal["store", "memory", "l1"]
FallbackOutcome = Literal["served", "denied", "failed"]
Comparison = Literal["same", "different", "stale_same", "stale_different", "missing", "unseen", "unsupported"]
WaitOutcome = Literal["computed", "collapsed", "stale", "fallback", "error", "timeout", "cancelled"]


@dataclass(frozen=True, slots=True)
class _AboutEntry:
    function: str
    entry: str


@dataclass(frozen=True, slots=True)
class Hit(_AboutEntry):
    """A fresh value. `source`: the store, this process's own copy (`l1_ttl`), or its memory while the store is away."""

    source: Source = "store"


@dataclass(frozen=True, slots=True)
class Stale(_AboutEntry):
    """There is a stale value, and a refresh is under way. The caller gets the value at once, unless a `Waited` follows.

    A `Waited` follows with `soft_timeout`, or if this request computes. It names the final outcome.
    """

    source: Source = "store"


@dataclass(frozen=True, slots=True)
class Miss(_AboutEntry):
    """No value can be served. The caller waits for a computation, in this process or in another."""


@dataclass(frozen=True, slots=True)
class Waited(_AboutEntry):
    """A wait ended. `seconds`: the time from the miss to the outcome.

    `outcome` is `computed` for the caller whose own call was run. It is `collapsed` for a caller that another call
    served, and `cancelled` for a caller that left. Any other word names what replaced the fresh value. `flight` is the
    id of the computation's flight in this process. `trace`: if another process computed, and a hook there has
    `traceparent`, its answer. Otherwise, or if the wake-up was lost, it is empty.
    """

    seconds: float
    outcome: WaitOutcome
    flight: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Refreshed(_AboutEntry):
    """A `refresh()` ended. The fields are those of `Waited`; `seconds` is the time from the call to the outcome."""

    seconds: float
    outcome: WaitOutcome
    flight: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Started(_AboutEntry):
    """The user's function is called now. The hook runs in the context of that call."""

    flight: str
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Computed(_AboutEntry):
    """The user's function has ended, after `seconds`. `error` is the exception's class name, or empty."""

    seconds: float
    flight: str
    error: str = ""
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Collapsed(_AboutEntry):
    """A flight of this process landed. `callers`: how many callers it served beyond one for each computation."""

    callers: int


@dataclass(frozen=True, slots=True)
class Fallback(_AboutEntry):
    """A caller waited `wait_timeout` and tried to compute beside the holder."""

    outcome: FallbackOutcome


@dataclass(frozen=True, slots=True)
class TimedOut(_AboutEntry):
    """A time limit passed. `what` is the Policy field that sets the limit."""

    what: Literal["wait_timeout", "compute_timeout", "fallback_timeout", "soft_timeout"]


@dataclass(frozen=True, slots=True)
class TakenOver(_AboutEntry):
    """The holder of the lease had vanished. This process took its place."""


@dataclass(frozen=True, slots=True)
class LeaseLapsed(_AboutEntry):
    """The lease lapsed while this process computes. Another process may now compute as well."""


@dataclass(frozen=True, slots=True)
class Compared(_AboutEntry):
    """In mode `shadow`: what a call would have been served. `stampede_guard.engine.modes.shadow.ShadowCounts`
    explains the words.
    """

    found: Comparison


@dataclass(frozen=True, slots=True)
class BreakerOpened:
    """The store counts as away from now on. `part` names one of several servers. It is empty for the whole store."""

    part: str = ""


@dataclass(frozen=True, slots=True)
class BreakerClosed:
    """The store, or this part of it, is back."""

    part: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The store refuses commands from now on. `kind`: see `stampede_guard.errors.StoreRefused`.

    `why`: its answer, without keys. `temporary`: the reason is the store's own state, and may pass by itself.
    """

    kind: RefusalKind
    why: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """A refusal is over. The fields are those of the `Refused` that it ends."""

    kind: RefusalKind
    why: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class NotStored(_AboutEntry):
    """A value was computed and served, but the store did not keep it. `kind`: as in `Refused`.

    Or `unsupported`: no bytes can hold the value. The log says what to write instead.
    """

    kind: RefusalKind | Literal["unsupported"]


@dataclass(frozen=True, slots=True)
class Stored(_AboutEntry):
    """A computed value is in the store. `size`: its bytes there, without the header of 51 bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A sample: `seconds` from the sending of a command to its answer, as this process sees it.

    A busy event loop adds to it. Of the commands of one tick, the last is measured. `part`: as in `BreakerOpened`.
    Commands without an answer are in no sample.
    """

    seconds: float
    part: str = ""


@dataclass(frozen=True, slots=True)
class L1Sized:
    """The copies of an event loop (`l1_ttl`) have about this many `bytes` in memory.

    `change`: the difference to the last such event of that event loop. The sum of all changes is the process's sum.
    """

    bytes: int
    change: int


@dataclass(frozen=True, slots=True)
class Invalidated:
    """`done`: callers that start from now on never get an older value.

    If not `done`, the store is away. The invalidation is done when the store is back.
    """

    entry: str
    done: bool


@dataclass(frozen=True, slots=True)
class LeaseWon(_AboutEntry):
    """This process holds the lease `entry` from now on. `seconds`: the time waited. `token` grows with each grant."""

    token: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LeaseReleased(_AboutEntry):
    """The lease was given back after `seconds`. `why`: empty, or the reason why the holder had to stop."""

    token: int
    seconds: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class HoldLost(_AboutEntry):
    """The lease ended, after `seconds`, before it was given back. It no longer protects the holder's work."""

    token: int
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class LeaseSkipped(_AboutEntry):
    """`holder` has the lease, for longer than this attempt waits. It is empty if the back end is away."""

    holder: str
    seconds: float


@dataclass(frozen=True, slots=True)
class JobStarted(_AboutEntry):
    """A job's function is called. `slot`: its scheduled time, in milliseconds since 1970; `run`: a UUID."""

    slot: int
    run: str
    attempt: int


@dataclass(frozen=True, slots=True)
class JobEnded(_AboutEntry):
    """A slot that this worker claimed has its outcome, after `seconds`. `error`: the exception's class name, or
    empty.
    """

    slot: int
    outcome: str
    seconds: float
    attempt: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class JobOverdue(_AboutEntry):
    """A job has had no success for `since` seconds: more than twice its rhythm. Nobody tells this if no worker runs."""

    since: float


@dataclass(frozen=True, slots=True)
class JobOnTime(_AboutEntry):
    """It is not overdue, or this worker no longer follows it."""


Event = (
    Hit
    | Stale
    | Miss
    | Waited
    | Refreshed
    | Started
    | Computed
    | Collapsed
    | Fallback
    | TimedOut
    | TakenOver
    | LeaseLapsed
    | Compared
    | BreakerOpened
    | BreakerClosed
    | Refused
    | Recovered
    | NotStored
    | Invalidated
    | LeaseWon
    | LeaseReleased
    | HoldLost
    | LeaseSkipped
    | JobStarted
    | JobEnded
    | JobOverdue
    | JobOnTime
    | Stored
    | RoundTrip
    | L1Sized
)


class Hook(Protocol):
    """Anything that can be called with an event."""

    def __call__(self, event: Event, /) -> object: ...
