"""Slots of APScheduler 3's triggers are the same in all workers, whatever chance and the start of each have added."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.triggers3 import kept_of, slot_at
from stampede_guard.jobs.schedules.schedule import moment, slot_of

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def firings(trigger: Any, begin: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    for _ in range(count):
        found.append(trigger.get_next_fire_time(found[-1] if found else None, found[-1] if found else begin))
    return found


def test_jitter_does_not_change_the_slot() -> None:
    plain = [slot_of(when) for when in firings(CronTrigger(minute="*", timezone=UTC), NOON, 50)]
    for _ in range(4):
        worker = CronTrigger(minute="*", jitter=50, timezone=UTC)
        # As APScheduler does it: each firing is looked for after the one before it.
        fired = firings(worker, NOON, 50)
        assert any(when.second for when in fired)
        assert {slot_at(worker, when) for when in fired} <= {*plain, *[slot + 60_000 for slot in plain]}
        assert all(slot_at(worker, when) == slot_of(when) // 60_000 * 60_000 for when in fired)


def test_jitter_within_a_combination_does_not_change_the_slot() -> None:
    inner = CronTrigger(hour=3, jitter=30, timezone=UTC), CronTrigger(hour=4, timezone=UTC)
    for trigger in (OrTrigger(list(inner), jitter=60), OrTrigger([OrTrigger(list(inner))], jitter=60)):
        for when in firings(trigger, NOON, 20):
            assert moment(slot_at(trigger, when)).strftime("%H:%M:%S.%f") in (
                "03:00:00.000000",
                "04:00:00.000000",
            )


def test_jitter_that_reaches_beyond_the_next_tick_still_has_slots_of_the_schedule() -> None:
    trigger = CronTrigger(second="*/10", jitter=25, timezone=UTC)
    assert all(slot_at(trigger, when) % 10_000 == 0 for when in firings(trigger, NOON, 50))


def test_a_first_firing_that_was_asked_for_is_a_slot_of_its_own() -> None:
    trigger = CronTrigger(hour=3, jitter=60, timezone=UTC)
    assert slot_at(trigger, NOON) == slot_of(NOON)
    every_other_day = CalendarIntervalTrigger(
        days=2, hour=3, start_date="2026-01-01", timezone=UTC, jitter=60
    )
    assert slot_at(every_other_day, NOON) == slot_of(NOON)


@pytest.mark.parametrize("day", [datetime(2026, 3, 28), datetime(2026, 10, 24)])
def test_slots_with_jitter_are_instants_also_where_clocks_change(day: datetime) -> None:
    begin = day.replace(tzinfo=BERLIN)
    for minute in ("*/20", "30"):
        bare = CronTrigger(hour="1-4", minute=minute, timezone=BERLIN)
        slots = {slot_of(when) for when in firings(bare, begin, 40)}
        for when in sorted(slots):
            worker = CronTrigger(hour="1-4", minute=minute, timezone=BERLIN, jitter=600)
            for added in (0, 1, 599):
                fired = (moment(when) + timedelta(seconds=added)).astimezone(BERLIN)
                assert slot_at(worker, fired) == when


def test_an_interval_has_one_slot_in_each_of_its_lengths_since_1970_wherever_it_began() -> None:
    for begin in (NOON, NOON + timedelta(seconds=299), datetime(2026, 3, 28, 12, 0, 1, tzinfo=BERLIN)):
        worker = IntervalTrigger(minutes=5, start_date=begin)
        slots = [slot_at(worker, when) for when in firings(worker, begin, 500)]
        assert slots == list(range(slots[0], slots[0] + 500 * 300_000, 300_000))
        assert slots[0] % 300_000 == 0


def test_an_interval_within_a_combination_is_refused_with_what_to_write() -> None:
    for trigger in (
        OrTrigger([CronTrigger(hour=3), IntervalTrigger(hours=1)]),
        AndTrigger([OrTrigger([IntervalTrigger(hours=1)])]),
    ):
        with pytest.raises(Misuse, match="write two jobs, each with one trigger"):
            kept_of(trigger)


def test_workers_that_were_started_on_different_days_have_the_same_schedule() -> None:
    texts = {
        kept_of(CalendarIntervalTrigger(days=1, hour=3, start_date=day, timezone=UTC)).text
        for day in ("2026-06-01", "2026-06-02")
    }
    assert len(texts) == 1
    assert kept_of(DateTrigger(NOON)) == kept_of(DateTrigger(NOON + timedelta(seconds=1)))
    nightly = [kept_of(CronTrigger(hour=3, timezone=zone)).text for zone in ("Europe/Berlin", "UTC")]
    assert len(set(nightly)) == 2


def test_the_rhythm_is_the_schedules_without_its_jitter() -> None:
    assert kept_of(CronTrigger(hour=3, jitter=600, timezone=UTC)).seconds == 86_400
    assert (
        kept_of(OrTrigger([CronTrigger(hour=3, timezone=UTC), CronTrigger(hour=4, timezone=UTC)])).seconds
        == 82_800
    )
    assert kept_of(IntervalTrigger(minutes=5)).seconds == 300
    assert kept_of(DateTrigger(NOON)).seconds == 0


def test_a_trigger_of_somebody_elses_has_one_text_and_perhaps_no_rhythm() -> None:
    class Tides(BaseTrigger):  # type: ignore[misc]
        def get_next_fire_time(self, previous_fire_time: Any, now: Any) -> Any:
            raise LookupError("no tide table")

    assert kept_of(Tides()) == kept_of(Tides())
    assert kept_of(Tides()).seconds == 0
