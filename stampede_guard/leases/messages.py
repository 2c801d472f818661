"""The requests and answers between the holder of a lease and its back end, as data.

A *lease* is the right to do the work that a name stands for. It has a holder, a token and a deadline. Two clocks are
never compared. A back end uses its own clock and answers with durations. A holder measures from before it sent the
request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Audit",
    "Forced",
    "LeaseGranted",
    "LeaseHeld",
    "LeaseRefused",
    "LeaseRequest",
    "LeaseView",
    "NotForced",
    "Owner",
    "Renewed",
    "Withheld",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that holds, for people to read. No decision depends on it. `process`: a UUID, new after a fork."""

    process: str
    pod: str = ""
    host: str = ""
    pid: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """One acquirer asks for one lease. The same `holder` may ask again: it is the same request.

    `holder`: a UUID of this acquisition; it identifies the holder. `lease_ttl`: seconds. `place`: the acquirer keeps
    its place in the queue for this many seconds without asking again; 0 = it does not queue. `turn`: once it is called,
    it keeps its place for this many seconds; 0 = as long as before. `handed_over`: the back end may grant the lease to
    others before its deadline, if it sees that the holder's process has ended.
    """

    name: str
    holder: str
    owner: Owner
    lease_ttl: float
    place: float = 0.0
    turn: float = 0.0
    handed_over: bool = False


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """The acquirer has the lease for at least `lease_ttl` seconds, from a moment after it sent the request."""

    token: int


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """Another holder has the lease, or an earlier waiter gets it next.

    `remaining`: seconds until it ends, unless its holder renews. `ahead`: waiters before the acquirer; -1 = it has no
    place. `resting`: the lease has no holder, but `at_least_for` is not over.
    """

    owner: Owner
    token: int
    remaining: float
    ahead: int = -1
    resting: bool = False


@dataclass(frozen=True, slots=True)
class Withheld:
    """The back end grants nothing now: it may have forgotten leases whose holders still believe. Ask again later."""

    why: str
    remaining: float


Answer = LeaseGranted | LeaseHeld | Withheld


@dataclass(frozen=True, slots=True)
class Renewed:
    """The lease is extended by `lease_ttl`. With `asked_to_leave` (who asked for its release) it is not extended.

    In that case the holder stops and releases.
    """

    asked_to_leave: str = ""


@dataclass(frozen=True, slots=True)
class LeaseRefused:
    """This holder no longer has the lease, and cannot get it again under this token. Nothing was changed."""

    why: Literal["gone", "taken"] = "gone"


@dataclass(frozen=True, slots=True)
class Forced:
    """The request to release is recorded. `remaining`: after this many seconds the lease can be granted in any case."""

    remaining: float


@dataclass(frozen=True, slots=True)
class NotForced:
    """Nothing was changed: the token is not the one that the caller saw. `token`: the current one, 0 = not held."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """A lease as operators see it. Times are from the back end's clock, in seconds since 1970; 0 = never."""

    name: str
    token: int
    held: bool
    owner: Owner | None = None
    granted_at: float = 0.0
    renewed_at: float = 0.0
    remaining: float = 0.0
    resting: bool = False
    asked_to_leave: str = ""
    waiting: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A forced release: `by` which operator, of which token, and whether it overrode the holder (`--now`)."""

    name: str
    token: int
    by: str
    at: float
    now: bool
    owner: Owner | None = field(default=None)
