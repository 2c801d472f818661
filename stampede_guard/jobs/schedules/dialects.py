"""The dialects of crontab lines: two schedulers may read different slots from the same text."""

from __future__ import annotations

from typing import Any, Literal
from zoneinfo import ZoneInfo

from stampede_guard.errors import PolicyError
from stampede_guard.jobs.schedules.apscheduler_cron import ApschedulerCron
from stampede_guard.jobs.schedules.schedule import Cron, Schedule

__all__ = ["Dialect", "cron_of"]

Dialect = Literal["debian", "apscheduler"]
DIALECTS = ("debian", "apscheduler")


def cron_of(expression: Any, *, tz: str | ZoneInfo = "UTC", dialect: Dialect = "debian") -> Schedule:
    """Raises `PolicyError` for an invalid line, an unknown time zone or an unknown dialect."""
    if dialect not in DIALECTS:
        raise PolicyError("dialect", dialect, f"write one of {', '.join(DIALECTS)}")
    if dialect == "debian":
        return Cron.of(expression, tz=tz)
    words = " ".join(expression.split()) if isinstance(expression, str) else expression
    return ApschedulerCron(words, tz.key if isinstance(tz, ZoneInfo) else tz)
