"""Which slots of a schedule to run now, and which are missed. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.jobs.schedules.schedule import Schedule

__all__ = ["MOST_AT_ONCE", "Due", "due"]

MOST_AT_ONCE = 1_000
"""Slots per call. After a long outage, a schedule of seconds has more; the caller handles them in portions."""


@dataclass(frozen=True, slots=True)
class Due:
    """`run`: slots to claim, oldest first. `missed`: slots that may no longer begin.

    `coalesced`: slots that a later slot replaces. `looked_to`: the latest slot of this portion. `following`: the first
    slot after this portion; None = the schedule has ended.
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
    """The slots later than `since` and not later than `now`. Both are milliseconds on the back end's clock.

    `misfire_grace`: seconds after its time within which a slot may begin. `coalesce`: if several slots may begin, only
    the latest of them runs.
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
        # Unless this is the last portion, the latest slot is in a later portion.
        last = len(runnable) if following is not None and following <= now else len(runnable) - 1
        coalesced, runnable = runnable[: max(0, last)], runnable[max(0, last) :]
    return Due(tuple(runnable), tuple(missed), tuple(coalesced), following, looked_to)
