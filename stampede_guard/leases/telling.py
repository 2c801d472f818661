"""Who got what, who gave it back, lost it or skipped: one line in the log each, and one event for the hooks."""

from __future__ import annotations

from stampede_guard import events
from stampede_guard.errors import LeaseTaken
from stampede_guard.leases.core.holding import Lost, Released
from stampede_guard.leases.keeper import Keeper
from stampede_guard.leases.owner import called
from stampede_guard.leases.part import Part, log

__all__ = ["ended", "skipped", "won"]


def won(keeper: Keeper, seconds: float) -> None:
    log.info("lease %s: %s holds it (token %d)", keeper.name, called(keeper.owner), keeper.token)
    if keeper.part.hooks:
        function = _function(keeper.part, keeper.name)
        keeper.part.hooks.tell(events.LeaseWon(function, keeper.name, keeper.token, seconds))


def ended(keeper: Keeper, outcome: Released | Lost, seconds: float) -> None:
    function = _function(keeper.part, keeper.name)
    event: events.Event
    if isinstance(outcome, Lost):
        log.error(
            "lease %s: %s has lost it after %.1f s (token %d): %s",
            keeper.name, called(keeper.owner), seconds, keeper.token, outcome.why,
        )  # fmt: skip
        event = events.HoldLost(function, keeper.name, keeper.token, seconds, outcome.why)
    else:
        log.info(
            "lease %s: %s %s after %.1f s (token %d)%s",
            keeper.name, called(keeper.owner), "uses it no more" if keeper.left_behind else "gave it back",
            seconds, keeper.token, f": {outcome.why}" if outcome.why else "",
        )  # fmt: skip
        event = events.LeaseReleased(function, keeper.name, keeper.token, seconds, outcome.why)
    keeper.part.hooks.tell(event)


def skipped(part: Part, name: str, error: Exception, seconds: float) -> None:
    holder = error.holder if isinstance(error, LeaseTaken) else ""
    log.info("lease %s: %s skips: %s", name, called(part.owner), error)
    part.hooks.tell(events.LeaseSkipped(_function(part, name), name, holder, seconds))


def _function(part: Part, name: str) -> str:
    """What may be a label of a metric: the name without what parameters may have put behind a colon."""
    return name.removeprefix(part.prefix).partition(":")[0]
