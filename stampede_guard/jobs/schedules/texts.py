"""A schedule from the text that the back end keeps. So a program without the job can tell its next slot."""

from __future__ import annotations

import re
from datetime import datetime

from stampede_guard.errors import Misuse
from stampede_guard.jobs.schedules.apscheduler_cron import ApschedulerCron
from stampede_guard.jobs.schedules.schedule import Cron, Every, Schedule, fingerprint

__all__ = ["LONGEST", "schedule_of"]

LONGEST = 300
"""Characters. Other programs may have written longer texts."""
_EVERY = re.compile(r"every ([\d.e+]{1,20}) s(?: from (\S{1,40}))?")
_CRON = re.compile(r"(\S+(?: \S+){4,5}) (\S+?)( as APScheduler reads it)?")


def schedule_of(text: str, mark: str) -> Schedule | None:
    """The schedule with this text and fingerprint (`mark`). None = another kind, or its package is missing."""
    if len(text) > LONGEST:
        return None
    try:
        made = _made(text)
        return made if made is not None and fingerprint(made) == mark else None
    except (Misuse, ValueError):
        return None


def _made(text: str) -> Schedule | None:
    if found := _EVERY.fullmatch(text):
        anchor = datetime.fromisoformat(found[2]) if found[2] else None
        return Every.of(float(found[1]), anchor=anchor)
    if found := _CRON.fullmatch(text):
        return ApschedulerCron(found[1], found[2]) if found[3] else Cron.of(found[1], tz=found[2])
    return None
