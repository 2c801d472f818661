"""Reports who got, released, lost or skipped a lease: one log line and one event for the hooks each.

The log line contains the lease's name, because operators search for it. The event's `function` is for metrics. It is
the name of an election, a job or an exclusive function, which the program declares. For `leases.hold(name)` it is
`hold`, because a name made for one block may contain a user's address.
"""

from __future__ import annotations

from stampede_guard import events
from stampede_guard.errors import LeaseTaken
from stampede_guard.leases.core.holding import Lost, Released
from stampede_guard.leases.keeping.keeper import Keeper
from stampede_guard.leases.keeping.loop_state import LoopState, log
from stampede_guard.leases.owner import called

__all__ = ["HOLD", "ended", "skipped", "title_of", "won"]

HOLD = "hold"
"""The title in events of leases whose names are made at run time."""


def title_of(name: str, prefix: str) -> str:
    """The title of a declared name: without the prefix, and without the part after a colon."""
    return name.removeprefix(prefix).partition(":")[0]


def won(keeper: Keeper, seconds: float) -> None:
    log.info("lease %s: %s holds it (token %d)", keeper.name, called(keeper.owner), keeper.token)
    if keeper.part.hooks:
        keeper.part.hooks.tell(events.LeaseWon(keeper.title, keeper.name, keeper.token, seconds))


def ended(keeper: Keeper, outcome: Released | Lost, seconds: float) -> None:
    event: events.Event
    if isinstance(outcome, Lost):
        log.error(
            "lease %s: %s lost it after %.1f s (token %d): %s",
            keeper.name, called(keeper.owner), seconds, keeper.token, outcome.why,
        )  # fmt: skip
        event = events.HoldLost(keeper.title, keeper.name, keeper.token, seconds, outcome.why)
    else:
        log.info(
            "lease %s: %s %s after %.1f s (token %d)%s",
            keeper.name, called(keeper.owner), "no longer uses it" if keeper.left_behind else "gave it back",
            seconds, keeper.token, f": {outcome.why}" if outcome.why else "",
        )  # fmt: skip
        event = events.LeaseReleased(keeper.title, keeper.name, keeper.token, seconds, outcome.why)
    keeper.part.hooks.tell(event)


def skipped(part: LoopState, name: str, title: str, error: Exception, seconds: float) -> None:
    holder = error.holder if isinstance(error, LeaseTaken) else ""
    log.info("lease %s: %s skips: %s", name, called(part.owner), error)
    part.hooks.tell(events.LeaseSkipped(title, name, holder, seconds))
