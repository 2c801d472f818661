"""Events of calls and flights: what a caller gets, what is computed, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stampede_guard.events.about import AboutEntry

__all__ = [
    "CallEvent",
    "Collapsed",
    "Compared",
    "Comparison",
    "Computed",
    "Fallback",
    "FallbackOutcome",
    "Hit",
    "Invalidated",
    "LeaseLapsed",
    "Miss",
    "Refreshed",
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
class Hit(AboutEntry):
    """A fresh value. `source`: the store, this process's own copy (`l1_ttl`), or its memory while the store is away.

    One per call.
    """

    source: Source = "store"


@dataclass(frozen=True, slots=True)
class Stale(AboutEntry):
    """There is a stale value, and a refresh is under way. The caller gets the value at once, unless a `Waited` follows.

    A `Waited` follows with `soft_timeout`, or if this request computes. It names the final outcome.

    One per call.
    """

    source: Source = "store"


@dataclass(frozen=True, slots=True)
class Miss(AboutEntry):
    """No value can be served. The caller waits for a computation, in this process or in another.

    One per call.
    """


@dataclass(frozen=True, slots=True)
class Waited(AboutEntry):
    """A wait ended. `seconds`: the time from the miss to the outcome.

    `outcome` is `computed` for the caller whose own call was run. It is `collapsed` for a caller that another call
    served, and `cancelled` for a caller that left. Any other word names what replaced the fresh value. `flight` is the
    id of the computation's flight in this process. `trace`: if another process computed, and a hook there has
    `traceparent`, its answer. Otherwise, or if the wake-up was lost, it is empty.

    One per `Miss`, and per `Stale` whose caller waited (`soft_timeout`, or a computation within the request).
    """

    seconds: float
    outcome: WaitOutcome
    flight: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Refreshed(AboutEntry):
    """A `refresh()` ended. The fields are those of `Waited`; `seconds` is the time from the call to the outcome.

    One per `refresh()`, which reports no `Miss` and no `Waited`, because it does not look for a value.
    """

    seconds: float
    outcome: WaitOutcome
    flight: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Started(AboutEntry):
    """The user's function is called now. The hook runs in the context of that call.

    One per computation, also of a fallback.
    """

    flight: str
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Computed(AboutEntry):
    """The user's function has ended, after `seconds`. `error` is the exception's class name, or empty.

    One per computation, also of a fallback.
    """

    seconds: float
    flight: str
    error: str = ""
    fallback: bool = False


@dataclass(frozen=True, slots=True)
class Collapsed(AboutEntry):
    """A flight of this process landed. `callers`: how many callers it served beyond one for each computation.

    One per flight that served more callers than it made computations.
    """

    callers: int


@dataclass(frozen=True, slots=True)
class Fallback(AboutEntry):
    """A caller waited `wait_timeout` and tried to compute beside the holder.

    One per caller that tried one.
    """

    outcome: FallbackOutcome


@dataclass(frozen=True, slots=True)
class TimedOut(AboutEntry):
    """A time limit passed. `what` is the Policy field that sets the limit.

    One per wait, computation or fallback that took too long.
    """

    what: Literal["wait_timeout", "compute_timeout", "fallback_timeout", "soft_timeout"]


@dataclass(frozen=True, slots=True)
class TakenOver(AboutEntry):
    """The holder of the lease had vanished. This process took its place.

    One per fault.
    """


@dataclass(frozen=True, slots=True)
class LeaseLapsed(AboutEntry):
    """The lease lapsed while this process computes. Another process may now compute as well.

    One per fault.
    """


@dataclass(frozen=True, slots=True)
class Compared(AboutEntry):
    """In mode `shadow`: what a call would have been served. `stampede_guard.engine.modes.shadow.ShadowCounts`
    explains the words.

    One per look of mode `shadow`.
    """

    found: Comparison


@dataclass(frozen=True, slots=True)
class Invalidated:
    """`done`: callers that start from now on never get an older value.

    If not `done`, the store is away. The invalidation is done when the store is back.

    One per `invalidate()`.
    """

    entry: str
    done: bool


CallEvent = (
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
    | Invalidated
)
