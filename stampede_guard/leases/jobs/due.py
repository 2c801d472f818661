"""Which slots of a schedule are to be run now, and which were missed: pure."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.leases.jobs.schedule import Schedule

__all__ = ["MOST_AT_ONCE", "Due", "due"]

MOST_AT_ONCE = 1_000
"""Slots dealt with in one look: after a long outage a schedule of seconds has more, and they come in portions."""


@dataclass(frozen=True, slots=True)
class Due:
    """`run`: slots to claim, oldest first. `missed`: too late for them. `coalesced`: a later slot runs in their place.

    `following`: the first slot not looked at, None = there is none. `looked_to`: the latest slot that was looked at.
    """

    run: tuple[int, ...]
    missed: tuple[int, ...]
    coalesced: tuple[int, ...]
    following: int | None
    looked_to: int


def due(
    schedule: Schedule,
    *,
    since: int,
    now: int,
    misfire_grace: float,
    coalesce: bool,
    most: int = MOST_AT_ONCE,
) -> Due:
    """The slots later than `since` and not later than `now` (both in milliseconds, on the back end's clock).

    `misfire_grace`: seconds for which a slot may still be run. `coalesce`: of several that may, only the latest runs.
    """
    runnable: list[int] = []
    missed: list[int] = []
    looked_to = since
    following = schedule.after(since)
    while following is not None and following <= now and len(runnable) + len(missed) < most:
        late = (now - following) / 1000
        (missed if late > misfire_grace else runnable).append(following)
        looked_to = following
        following = schedule.after(following)
    coalesced: list[int] = []
    if coalesce:
        # Where this is not the last portion, the latest slot is in one that follows.
        last = len(runnable) if following is not None and following <= now else len(runnable) - 1
        coalesced, runnable = runnable[: max(0, last)], runnable[max(0, last) :]
    return Due(tuple(runnable), tuple(missed), tuple(coalesced), following, looked_to)
