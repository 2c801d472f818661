"""Events of `stampede_guard.leases`."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.events.about import AboutEntry

__all__ = [
    "HoldLost",
    "LeaseEvent",
    "LeaseReleased",
    "LeaseSkipped",
    "LeaseWon",
]


@dataclass(frozen=True, slots=True)
class LeaseWon(AboutEntry):
    """This process holds the lease `entry` from now on. `seconds`: the time waited. `token` grows with each grant.

    One per lease of `stampede_guard.leases` that was held.
    """

    token: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LeaseReleased(AboutEntry):
    """The lease was given back after `seconds`. `why`: empty, or the reason why the holder had to stop.

    One per lease of `stampede_guard.leases` that was held.
    """

    token: int
    seconds: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class HoldLost(AboutEntry):
    """The lease ended, after `seconds`, before it was given back. It no longer protects the holder's work.

    One per lease of `stampede_guard.leases` that was held.
    """

    token: int
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class LeaseSkipped(AboutEntry):
    """`holder` has the lease, for longer than this attempt waits. It is empty if the back end is away.

    One per attempt that ended because another holder has the lease.
    """

    holder: str
    seconds: float


LeaseEvent = LeaseWon | LeaseReleased | HoldLost | LeaseSkipped
