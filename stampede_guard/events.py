"""What happens, told to whoever asks: frozen events through one small hook.

    def hook(event: Event) -> None: ...
    guard = StampedeGuard.from_url("redis://...", hooks=(hook,))

A hook is called in the event loop, at once, so it must be short and must not block; an error of it is logged once and
harms nobody. `Hit`, `Stale`, `Miss`, `Waited`, `Refreshed` and `Invalidated` are told in the context of the caller (its
trace is the current one), `Started` in that of the computation, the others in none in particular.

| event | one per |
|---|---|
| `Hit`, `Stale`, `Miss` | call |
| `Waited` | `Miss`, and `Stale` that waited for `soft_timeout` or within its request |
| `Refreshed` | `refresh()`, which is no call for a value that may be there: no `Miss` and no `Waited` of its own |
| `Started`, `Computed` | computation, a fallback's included |
| `Collapsed` | flight that served more callers than it made computations |
| `Fallback` | caller that tried one |
| `TimedOut` | wait, computation or fallback that took too long |
| `TakenOver`, `LeaseLost` | fault |
| `Compared` | look of mode `shadow` |
| `BreakerOpened`, `BreakerClosed` | change and server: all event loops of a guard notice one outage |
| `Refused`, `Recovered` | change, and text of the refusal |
| `NotStored` | value that was computed and that the store did not keep |
| `Invalidated` | `invalidate()` |
| `LeaseWon`, then `LeaseReleased` or `HoldLost` | lease of `stampede_guard.leases` that was held |
| `LeaseSkipped` | attempt that ended because somebody else has it |
| `JobStarted`, then `JobEnded` | slot of a job that this worker claimed; only `JobEnded` where it did not run |

Two fields are in every event about an entry. `function` is what it is called in logs and metrics: a function's name;
the `name=` of a `get_or_compute` or `single`, or just `get_or_compute`; the name of an election, a job or an exclusive
function, or just `hold`. No part of a key and no name made at run time is ever in it. `entry` is
the complete name, which has values of parameters in it: it is for operators, and never a label of a metric or a line
of a log.
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
    "JobStarted",
    "LeaseLost",
    "LeaseReleased",
    "LeaseSkipped",
    "LeaseWon",
    "Miss",
    "NotStored",
    "Recovered",
    "Refreshed",
    "Refused",
    "Source",
    "Stale",
    "Started",
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
    """There is a stale value, and somebody refreshes it. It is served at once, unless a `Waited` follows.

    That is so with `soft_timeout`, or where this very request is to compute; it tells what was served in the end.
    """

    source: Source = "store"


@dataclass(frozen=True, slots=True)
class Miss(_AboutEntry):
    """There is no value to serve; the caller waits for a computation, its own process's or another's."""


@dataclass(frozen=True, slots=True)
class Waited(_AboutEntry):
    """The end of a wait. `seconds` from the miss to the outcome.

    `outcome` is `computed` for the caller whose own call was run, `collapsed` for one that another's served,
    `cancelled` when the caller left, else what it got instead of a fresh value. `flight` names the computation's
    flight in this process.
    """

    seconds: float
    outcome: WaitOutcome
    flight: str


@dataclass(frozen=True, slots=True)
class Refreshed(_AboutEntry):
    """The end of a `refresh()`: fields as those of `Waited`, from the call to the outcome."""

    seconds: float
    outcome: WaitOutcome
    flight: str


@dataclass(frozen=True, slots=True)
class Started(_AboutEntry):
    """The user's function is called now, in the context in which this is told."""

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
    """A flight of this process has landed: it served `callers` more than it made computations."""

    callers: int


@dataclass(frozen=True, slots=True)
class Fallback(_AboutEntry):
    """A caller waited `wait_timeout` and tried to compute beside the holder."""

    outcome: FallbackOutcome


@dataclass(frozen=True, slots=True)
class TimedOut(_AboutEntry):
    """`what` names the Policy field whose seconds are over."""

    what: Literal["wait_timeout", "compute_timeout", "fallback_timeout", "soft_timeout"]


@dataclass(frozen=True, slots=True)
class TakenOver(_AboutEntry):
    """The holder of the lease had vanished, and this process has taken its place."""


@dataclass(frozen=True, slots=True)
class LeaseLost(_AboutEntry):
    """This process computes and its lease has lapsed: somebody else may compute as well."""


@dataclass(frozen=True, slots=True)
class Compared(_AboutEntry):
    """In mode `shadow`: what a call would have been served. See `stampede_guard.shadow.ShadowCounts` for the words."""

    found: Comparison


@dataclass(frozen=True, slots=True)
class BreakerOpened:
    """The store counts as away. `part` names one of several servers; empty for the whole store."""

    part: str = ""


@dataclass(frozen=True, slots=True)
class BreakerClosed:
    """The store, or this part of it, is back."""

    part: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The store answers no from now on. `kind`: see `stampede_guard.errors.StoreRefused`.

    `why`: its answer, without keys. `temporary`: the reason is the store's own state, and may pass by itself.
    """

    kind: RefusalKind
    why: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the store refused it does again. Fields as those of the `Refused` that it ends."""

    kind: RefusalKind
    why: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class NotStored(_AboutEntry):
    """A value was computed and served, and the store did not keep it. `kind`: as that of `Refused`."""

    kind: RefusalKind


@dataclass(frozen=True, slots=True)
class Invalidated:
    """`done`: no caller from now on is served an older value. Else the store is away; it is done on its return."""

    entry: str
    done: bool


@dataclass(frozen=True, slots=True)
class LeaseWon(_AboutEntry):
    """This process holds the lease `entry` from now on. `seconds` of waiting; `token` grows with each grant."""

    token: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LeaseReleased(_AboutEntry):
    """It was given back after `seconds`. `why`: empty, or why the holder was told to stop."""

    token: int
    seconds: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class HoldLost(_AboutEntry):
    """It ended, after `seconds`, before it was given back: what it protected is protected no more."""

    token: int
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class LeaseSkipped(_AboutEntry):
    """Somebody else has it, `holder`, for longer than was to be waited; or the back end is away, and it is empty."""

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
    | LeaseLost
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
)


class Hook(Protocol):
    """Anything that can be called with an event."""

    def __call__(self, event: Event, /) -> object: ...
