"""The job, and the count of its executions: a journal in a file, apart from what is to be shown."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED

from bench.journal import Journal

__all__ = ["DATABASE_URL", "EVERY", "TERMS", "count", "executed", "nightly_report", "standing"]

DATABASE_URL = os.environ.get("DATABASE_URL", "postgresql://localhost/postgres")
EVERY = 2
"""Seconds between two ticks."""
TERMS: dict[str, Any] = {"id": "report", "misfire_grace_time": 60, "coalesce": False}
"""A worker that is late, on a busy machine, still runs each tick; what is counted does not depend on the machine."""
_journal = Journal(Path(os.environ.get("JOURNAL", "journal")))


async def nightly_report() -> None:
    """Five milliseconds: it is over before the next worker, a little late, looks for a lock."""
    await asyncio.sleep(0.005)


def standing() -> None:
    """This worker's scheduler runs from now on."""
    _journal.write("standing", os.getpid(), f"{datetime.now(UTC).timestamp():.3f}")


def executed(tick: datetime) -> None:
    """This worker ran the job for this tick, in this moment or a little before."""
    _journal.write("executed", os.getpid(), f"{tick.timestamp():.0f}")


def count(scheduler: Any) -> None:
    """Count what a scheduler of APScheduler executes."""
    scheduler.add_listener(lambda event: executed(event.scheduled_run_time), EVENT_JOB_EXECUTED)
