"""The slot of a tick is its scheduled time, whichever beat sends it, and however late."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule

from stampede_guard.errors import Misuse
from stampede_guard.integrations.celery.ticks import kept_of, slot_at

DAY = 86_400.0


def in_zone(zone: str, **fields: Any) -> crontab:
    app = Celery(set_as_current=False)
    app.conf.timezone = zone
    return crontab(**fields, app=app)


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def slot(due: Any, now: float) -> datetime:
    return datetime.fromtimestamp(slot_at(due, now) / 1000, UTC)


@pytest.mark.parametrize(
    "sent", ["2026-03-02T03:00:00", "2026-03-02T03:00:59", "2026-03-02T09:12:00", "2026-03-03T02:59:59"]
)
def test_a_beat_that_is_late_sends_the_slot_that_was_due(sent: str) -> None:
    nightly = in_zone("UTC", minute="0", hour="3")
    assert slot(nightly, at(sent)).isoformat() == "2026-03-02T03:00:00+00:00"


@pytest.mark.parametrize(
    ("zone", "fields", "sent", "expected"),
    [
        ("Asia/Kathmandu", {"minute": "0", "hour": "3"}, "2026-03-02T04:00:00", "2026-03-02T03:00:00"),
        ("UTC", {"minute": "*/15"}, "2026-03-02T03:44:59", "2026-03-02T03:30:00"),
        ("UTC", {"minute": "0", "hour": "0", "day_of_week": "sun"}, "2026-03-04T00:00:00", "2026-03-01T00:00:00"),
        ("UTC", {"minute": "5", "hour": "4", "day_of_month": "31"}, "2026-03-02T00:00:00", "2026-01-31T04:05:00"),
        ("UTC", {"minute": "0", "hour": "0", "day_of_month": "29", "month_of_year": "2"}, "2026-03-02T00:00:00",
         "2024-02-29T00:00:00"),
    ],
)  # fmt: skip
def test_fields_and_zones(zone: str, fields: dict[str, str], sent: str, expected: str) -> None:
    assert slot(in_zone(zone, **fields), at(sent, zone)).timestamp() == at(expected, zone)


def test_an_hour_that_comes_twice_has_each_of_its_slots_once() -> None:
    """In Berlin, 02:00 to 03:00 comes twice on 25 October 2026."""
    every = in_zone("Europe/Berlin", minute="*/20")
    begin = datetime(2026, 10, 25, 0, 0, tzinfo=UTC).timestamp()
    slots = [slot_at(every, begin + minute * 60 + 0.2) / 1000 for minute in range(0, 180, 20)]
    assert slots == [begin + minute * 60 for minute in range(0, 180, 20)]


def test_a_slot_is_the_time_that_celery_itself_finds_due() -> None:
    """Just before the slot Celery waits for the slot, and after it for a time later than now."""
    draw = random.Random(11)
    for _ in range(60):
        fields: dict[str, Any] = {
            "minute": draw.choice(["*", "*/7", "0", "13,44", "5-9"]),
            "hour": draw.choice(["*", "3", "*/5", "22,23"]),
            "day_of_week": draw.choice(["*", "*", "mon-fri", "0"]),
            "day_of_month": draw.choice(["*", "*", "1", "*/10"]),
            "month_of_year": draw.choice(["*", "*", "2,11"]),
        }
        now = at("2026-01-01T00:00:00") + draw.random() * 365 * DAY
        due = in_zone("UTC", **fields)
        found = slot(due, now)
        due.nowfun = lambda found=found: found
        last, delta, _ = due.remaining_delta(found - timedelta(seconds=1))
        assert last + delta == found, (fields, now)
        due.nowfun = lambda now=now: datetime.fromtimestamp(now, UTC)
        last, delta, _ = due.remaining_delta(found)
        assert (last + delta).timestamp() > now, (fields, now)


def test_the_slots_of_an_interval_are_its_multiples_so_two_beats_that_began_apart_agree() -> None:
    half = schedule(timedelta(seconds=30))
    assert slot_at(half, 60.1) == slot_at(half, 89.9) == 60_000
    assert slot_at(half, 90.0) == 90_000
    assert slot_at(schedule(0.5), 1.75) == 1_500


def test_a_beat_that_drifts_takes_no_slot_of_an_interval_twice() -> None:
    """A beat sends a little later each time, counted from its last tick."""
    draw, now, slots = random.Random(5), 1_000_029.99, []
    for _ in range(1_000):
        slots.append(slot_at(schedule(30), now))
        now += 30 + draw.random() * 0.1
    assert len(set(slots)) == len(slots)


@pytest.mark.parametrize(
    ("fields", "gap"),
    [
        ({"minute": "*"}, 60.0),
        ({"minute": "0"}, 3_600.0),
        ({"minute": "0", "hour": "3"}, DAY),
        ({"minute": "0", "hour": "9-17"}, 16 * 3_600.0),
        ({"minute": "0", "hour": "3", "day_of_week": "mon-fri"}, 3 * DAY),
        ({"minute": "0", "hour": "3", "day_of_month": "1"}, 31 * DAY),
    ],
)
def test_the_longest_time_between_two_slots(fields: dict[str, str], gap: float) -> None:
    assert kept_of(in_zone("UTC", **fields)).seconds == gap


def test_two_beats_name_one_schedule_alike_and_two_zones_differently() -> None:
    texts = [kept_of(in_zone(zone, hour="3", minute="0")).text for zone in ("UTC", "UTC", "Europe/Berlin")]
    assert texts[0] == texts[1] != texts[2]
    assert kept_of(schedule(30)).text == "every 30 s"
    assert kept_of(schedule(30)).seconds == 30.0


@pytest.mark.parametrize("due", [BaseSchedule(), schedule(0)])
def test_a_schedule_without_slots_is_refused(due: Any) -> None:
    with pytest.raises(Misuse, match="write crontab"):
        slot_at(due, 1_000.0)
