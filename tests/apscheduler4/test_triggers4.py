"""Slots of APScheduler 4's triggers are the same in all workers, whenever each was started."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.abc import Trigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.triggers4 import kept_of, slot_at
from stampede_guard.jobs.schedules.schedule import slot_of

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def slots(trigger: Any, count: int) -> list[int]:
    """As the scheduler of one worker comes to them."""
    worker = copy.deepcopy(trigger)
    return [slot_at(worker, when) for _ in range(count) if (when := worker.next()) is not None]


def test_an_interval_has_one_slot_in_each_of_its_lengths_wherever_it_began() -> None:
    for begin in (NOON, NOON + timedelta(seconds=299)):
        found = slots(IntervalTrigger(minutes=5, start_time=begin), 100)
        assert found == list(range(slot_of(NOON), slot_of(NOON) + 100 * 300_000, 300_000))


@pytest.mark.parametrize("begin", [datetime(2026, 3, 27, 0, 30), datetime(2026, 10, 23, 0, 30)])
@pytest.mark.parametrize("days", [1, 2])
def test_days_by_the_clock_on_the_wall_have_a_slot_each_where_clocks_change(
    begin: datetime, days: int
) -> None:
    workers = [
        slots(
            IntervalTrigger(days=days, start_time=begin.replace(tzinfo=BERLIN) + timedelta(hours=hours)), 10
        )
        for hours in (0, 1, 22)
    ]
    assert all(len(set(found)) == 10 for found in workers)
    assert workers[0] == workers[1] == workers[2]


def test_workers_that_began_before_and_after_clocks_changed_have_the_same_slots() -> None:
    before, after = (timezone(timedelta(hours=hours)) for hours in (1, 2))
    first = slots(IntervalTrigger(days=1, start_time=datetime(2026, 3, 28, 9, tzinfo=before)), 5)
    second = slots(IntervalTrigger(days=1, start_time=datetime(2026, 3, 30, 8, tzinfo=after)), 3)
    assert first[2:] == second


def test_hours_by_the_clock_on_the_wall_are_instants_that_come_once() -> None:
    for month, day in ((3, 28), (10, 24)):
        trigger = IntervalTrigger(minutes=30, start_time=datetime(2026, month, day, 12, 10, tzinfo=BERLIN))
        worker = copy.deepcopy(trigger)
        fired = [worker.next() for _ in range(60)]
        instants = {slot_of(when) for when in fired if when is not None}
        assert len(set(slots(trigger, 60))) == len(instants)


def test_a_cron_expression_has_whole_seconds() -> None:
    for start in (NOON, NOON + timedelta(microseconds=123_456)):
        found = slots(CronTrigger(second="*", timezone="UTC", start_time=start), 10)
        assert found == list(range(slot_of(NOON), slot_of(NOON) + 10_000, 1_000))
    either = OrTrigger(
        [CronTrigger(second="*", timezone="UTC", start_time=NOON + timedelta(microseconds=123_456))]
    )
    assert slots(either, 3)[0] == slot_of(NOON)


def test_a_date_keeps_its_milliseconds() -> None:
    when = NOON + timedelta(milliseconds=7)
    assert slots(DateTrigger(when), 2) == [slot_of(when)]


def test_an_interval_within_a_combination_is_refused_with_what_to_write() -> None:
    inner = OrTrigger([IntervalTrigger(hours=1), CronTrigger(hour=3)])
    for trigger in (inner, AndTrigger([inner, CronTrigger(hour=3)])):
        with pytest.raises(Misuse, match="write two schedules"):
            kept_of(trigger, 0.0)


@pytest.mark.parametrize(
    ("one", "other", "rhythm"),
    [
        (IntervalTrigger(minutes=5), IntervalTrigger(seconds=300, start_time=NOON), 300),
        (
            CronTrigger(hour=3, timezone="Europe/Berlin"),
            CronTrigger(hour=3, timezone="Europe/Berlin", start_time=NOON),
            None,
        ),
        (
            CalendarIntervalTrigger(days=1, hour=3, timezone="UTC", start_date="2026-06-01"),
            CalendarIntervalTrigger(days=1, hour=3, timezone="UTC", start_date="2026-06-02"),
            86_400,
        ),
        (DateTrigger(NOON), DateTrigger(NOON + timedelta(1)), 0),
        (
            OrTrigger([CronTrigger(hour=3, timezone="UTC"), CronTrigger(hour=4, timezone="UTC")]),
            OrTrigger(
                [CronTrigger(hour=3, timezone="UTC"), CronTrigger(hour=4, timezone="UTC", start_time=NOON)]
            ),
            82_800,
        ),
    ],
)
def test_workers_that_were_started_at_different_times_have_the_same_schedule(
    one: Any, other: Any, rhythm: float | None
) -> None:
    assert kept_of(one, 0.0).text == kept_of(other, 0.0).text
    if rhythm is not None:
        assert kept_of(one, 0.0).seconds == rhythm
    assert kept_of(one, 60).seconds == 60


def test_schedules_that_differ_have_different_texts() -> None:
    different = [
        CronTrigger(hour=3, timezone="UTC"),
        CronTrigger(hour=3, timezone="Europe/Berlin"),
        CronTrigger(hour=4, timezone="UTC"),
        IntervalTrigger(hours=1),
        CalendarIntervalTrigger(days=1, timezone="UTC"),
        CalendarIntervalTrigger(days=2, timezone="UTC"),
    ]
    assert len({kept_of(trigger, 0.0).text for trigger in different}) == len(different)


def test_asking_for_the_rhythm_does_not_take_a_firing_away() -> None:
    trigger = CronTrigger(hour=3, timezone="UTC", start_time=NOON)
    kept_of(trigger, 0.0)
    assert trigger.next() == datetime(2026, 6, 2, 3, tzinfo=UTC)


class Tides(Trigger):
    """A trigger of somebody else's, whose text changes."""

    def __init__(self) -> None:
        self.asked = 0

    def __repr__(self) -> str:
        return f"<Tides asked {self.asked} times>"

    def next(self) -> datetime | None:
        self.asked += 1
        if self.asked > 3:
            raise LookupError("no tide table")
        return NOON + timedelta(milliseconds=self.asked)

    def __getstate__(self) -> Any:
        return self.asked

    def __setstate__(self, state: Any) -> None:
        self.asked = state


def test_a_trigger_of_somebody_elses_has_one_text_and_perhaps_no_rhythm() -> None:
    trigger = Tides()
    first = kept_of(trigger, 0.0)
    assert slots(trigger, 2) == [slot_of(NOON) + 1, slot_of(NOON) + 2]
    trigger.next()
    assert kept_of(trigger, 0.0) == first
    assert first.seconds == 0
