"""The stamp of a message from beat: the slot that it is for."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Self

from celery import current_task

from stampede_guard.integrations.celery.ticks import kept_of, slot_at
from stampede_guard.jobs.apscheduler.external import ExternalSchedule

__all__ = ["HEADER", "MARK", "Stamp"]

log = logging.getLogger("stampede_guard.jobs")

HEADER = "stampede_guard_slot"
MARK = "stampede_guard_once_per_slot"
"""The attribute of functions whose messages get a stamp."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """`job`: the name of the beat entry. `sent_at`: on the clock of the beat. `claimed`: this message has the slot."""

    job: str
    task: str
    slot: int
    sent_at: float
    schedule: ExternalSchedule
    claimed: bool = False
    retries: int = 0

    @classmethod
    def of_entry(cls, app: Any, entry: Any) -> Self | None:
        """None if the task is not once per slot. Raises `Misuse` for a schedule without slots."""
        task = app.tasks.get(entry.task)
        if not getattr(getattr(task, "run", None), MARK, False):
            return None
        now = time.time()
        return cls(entry.name, entry.task, slot_at(entry.schedule, now), now, kept_of(entry.schedule))

    def header(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "task": self.task,
            "slot": self.slot,
            "sent_at": self.sent_at,
            "schedule": self.schedule.text,
            "seconds": self.schedule.seconds,
            "claimed": self.claimed,
        }

    @classmethod
    def of_this_task(cls) -> Self | None:
        """None if the running task was not sent by a beat, but called by a program or by another task."""
        task = current_task._get_current_object()
        header = task and (task.request.headers or {}).get(HEADER)
        if not header or header["task"] != task.name:
            return None
        retries = task.request.retries if header["claimed"] else 0
        return cls(
            job=header["job"],
            task=header["task"],
            # A retry of a run is a slot of its own. A retry of a message that never had the slot claims the slot.
            slot=header["slot"] + retries,
            sent_at=header["sent_at"],
            schedule=ExternalSchedule(header["schedule"], header["seconds"]),
            claimed=header["claimed"],
            retries=retries,
        )

    @property
    def late(self) -> float:
        """Seconds since the beat sent it. A retry is as late as its task wants."""
        return 0.0 if self.retries else max(0.0, time.time() - self.sent_at)

    def take(self) -> None:
        """This message has the slot. Celery copies the header to the messages of its retries."""
        headers = current_task.request.headers
        headers[HEADER] = {**headers[HEADER], "claimed": True}
