"""What a lease's holder and its back end say to each other, as data.

A *lease* is the right to do what a name stands for: holder, token, deadline. Two clocks are never compared: a back end
works with its own clock and answers with durations; a holder measures from the moment before its request left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Ask",
    "Audit",
    "Forced",
    "Granted",
    "Held",
    "LeaseView",
    "NotForced",
    "Owner",
    "Refused",
    "Renewed",
    "Withheld",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds, for people to read: it decides nothing. `process`: a UUID, another one after a fork."""

    process: str
    pod: str = ""
    host: str = ""
    pid: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One acquirer asks for one lease; asked again with the same `holder` it is the same question.

    `holder`: a UUID for this acquisition, and the identity that counts. `lease_ttl`: seconds. `place`: seconds for
    which a waiting acquirer's place in the queue holds without being asked again; 0 = it does not queue.
    `turn`: seconds for which a place holds once its turn was called, 0 = as long as before. `handed_over`: the back end
    may give the lease to others before its deadline, when it sees that the holder's process is gone.
    """

    name: str
    holder: str
    owner: Owner
    lease_ttl: float
    place: float = 0.0
    turn: float = 0.0
    handed_over: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease is the asker's: for at least `lease_ttl` seconds from some moment after the question was sent."""

    token: int


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else has it, or an earlier waiter is to have it. `remaining`: seconds to its end if nobody renews.

    `ahead`: waiters before the asker; -1 = it does not queue. `resting`: nobody holds it; `at_least_for` is not over.
    """

    owner: Owner
    token: int
    remaining: float
    ahead: int = -1
    resting: bool = False


@dataclass(frozen=True, slots=True)
class Withheld:
    """The back end grants nothing for now: it may have forgotten leases that are still believed in. Ask again later."""

    why: str
    remaining: float


Answer = Granted | Held | Withheld


@dataclass(frozen=True, slots=True)
class Renewed:
    """It holds for another `lease_ttl`; but with `asked_to_leave` (who asked for its release) only as long as it did.

    Then the holder stops and releases.
    """

    asked_to_leave: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not this holder's any more; nothing was changed. It will never be again under this token."""

    why: Literal["gone", "taken"] = "gone"


@dataclass(frozen=True, slots=True)
class Forced:
    """The release asked for is noted. `remaining`: seconds until it can be granted anew in any case."""

    remaining: float


@dataclass(frozen=True, slots=True)
class NotForced:
    """Nothing was changed, because the token is not the one that was seen. `token`: the current one, 0 = not held."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """A lease as an operator sees it. Times are the back end's, in seconds since 1970; 0 = never."""

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
    """What an operator did: `by` whom, to which token, and whether he overrode the holder (`--now`)."""

    name: str
    token: int
    by: str
    at: float
    now: bool
    owner: Owner | None = field(default=None)
