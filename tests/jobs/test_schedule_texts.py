"""A schedule is read from its text only if that gives the same slots."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stampede_guard.jobs.schedules.dialects import cron_of
from stampede_guard.jobs.schedules.schedule import Cron, Every, Schedule, fingerprint
from stampede_guard.jobs.schedules.texts import LONGEST, schedule_of

NOW = 1_760_000_000_000


@pytest.mark.parametrize(
    "schedule",
    [
        Every.of(300),
        Every.of(1.5),
        Every.of(604_800, anchor=datetime(2026, 1, 1, 3, tzinfo=UTC)),
        Cron.of("0 3 * * *", tz="Europe/Berlin"),
        Cron.of("*/5 0 3 * * MON-FRI"),
        cron_of("0 3 * * 0", dialect="apscheduler"),
    ],
)
def test_a_schedule_comes_back_with_its_slots(schedule: Schedule) -> None:
    found = schedule_of(schedule.text, fingerprint(schedule))
    assert found is not None
    assert found.after(NOW) == schedule.after(NOW)


@pytest.mark.parametrize(
    "text",
    [
        "cron[hour='3']",
        "every 7 s",
        "every 1.2.3 s",
        "every 300 s from yesterday",
        "0 3 * * * Mars/Base",
        "61 3 * * * UTC",
        "",
        "* " * 200,
    ],
)
def test_any_other_text_is_no_schedule(text: str) -> None:
    assert schedule_of(text, fingerprint(Every.of(300))) is None


def test_a_text_with_another_fingerprint_is_not_trusted() -> None:
    assert schedule_of("every 300 s", "0" * 16) is None
    assert len("* " * 200) > LONGEST
