"""Slots where clocks change, in every zone of the tz database, held against a second library and against the wall
clock itself; and crontab lines of APScheduler, held against its own trigger."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from croniter import croniter

from stampede_guard.errors import PolicyError
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.schedules.dialects import cron_of
from stampede_guard.jobs.schedules.realtime import change_between
from stampede_guard.jobs.schedules.schedule import Schedule, moment, slot_of
from stampede_guard.leases import MemoryLeases

FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
HALF_A_DAY = timedelta(hours=13)

BY_THE_CLOCK: dict[str, Callable[[datetime], bool]] = {
    "*/15 * * * *": lambda wall: wall.minute % 15 == 0,
    "0 * * * *": lambda wall: wall.minute == 0,
    "15 * * * *": lambda wall: wall.minute == 15,
    "*/20 */2 * * *": lambda wall: wall.minute % 20 == 0 and wall.hour % 2 == 0,
    "0 */12 * * *": lambda wall: wall.minute == 0 and wall.hour % 12 == 0,
    "45 */3 * * *": lambda wall: wall.minute == 45 and wall.hour % 3 == 0,
    "30 */1 * * MON-FRI": lambda wall: wall.minute == 30 and wall.weekday() < 5,
}
"""With `*` in minute or hour: every real minute whose wall time matches."""
AT_A_TIME: dict[str, Callable[[datetime], bool]] = {
    "30 2 * * *": lambda wall: (wall.hour, wall.minute) == (2, 30),
    "0 0 * * *": lambda wall: (wall.hour, wall.minute) == (0, 0),
    "15 1,2,3 * * *": lambda wall: wall.hour in (1, 2, 3) and wall.minute == 15,
    "45 23 * * *": lambda wall: (wall.hour, wall.minute) == (23, 45),
    "0 0 1 4,10 *": lambda wall: (wall.hour, wall.minute, wall.day) == (0, 0, 1) and wall.month in (4, 10),
}
"""Minute and hour are named: once a day, however the clocks are put."""


@cache
def changes() -> dict[str, list[datetime]]:
    """Zones with a change of clocks in these years, one name for each set of changes."""
    found: dict[object, tuple[str, list[datetime]]] = {}
    for name in sorted(zoneinfo.available_timezones()):
        if name == "localtime":
            continue
        zone, at, moments = ZoneInfo(name), FIRST, []
        while (change := change_between(zone, at, LAST)) is not None:
            moments.append(change)
            at = change
        offsets = tuple(when.astimezone(zone).utcoffset() for when in moments)
        found.setdefault((tuple(moments), offsets), (name, moments))
    return {name: moments for name, moments in found.values() if moments}


def kinds_of_change() -> list[tuple[str, datetime]]:
    """One change of each zone, size and hour of the day."""
    found: dict[object, tuple[str, datetime]] = {}
    for name, moments in changes().items():
        for change in moments:
            before = (change - timedelta(seconds=1)).astimezone(ZoneInfo(name))
            after = change.astimezone(ZoneInfo(name))
            key = (name, after.utcoffset(), before.utcoffset(), after.time())
            found.setdefault(key, (name, change))
    return list(found.values())


def ours(schedule: Schedule, begin: datetime, end: datetime) -> list[datetime]:
    slots, slot = [], schedule.after(slot_of(begin))
    while slot is not None and slot < slot_of(end):
        slots.append(moment(slot))
        slot = schedule.after(slot)
    return slots


def croniters(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    found, others = [], croniter(expression, begin.astimezone(zone))
    while (when := others.get_next(datetime).astimezone(UTC)) < end:
        # A time that is missing it moves, as we do only where minute and hour are named.
        if BY_THE_CLOCK[expression](when.astimezone(zone)):
            found.append(when)
    return found


def matching(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """Real minutes whose wall time matches, one by one: too simple to be wrong."""
    minutes = int((end - begin).total_seconds() // 60)
    moments = (begin + timedelta(minutes=minute) for minute in range(1, minutes))
    return [when for when in moments if BY_THE_CLOCK[expression](when.astimezone(zone))]


class TestClockChanges:
    def test_there_are_changes_to_look_at_and_half_an_hour_is_among_them(self) -> None:
        found = {name: len(moments) for name, moments in changes().items()}
        assert len(found) > 25 and sum(found.values()) > 300
        assert "Australia/LHI" in found or "Australia/Lord_Howe" in found

    def test_six_hours_at_lord_howe_keep_their_six_in_the_morning(self) -> None:
        zone = ZoneInfo("Australia/Lord_Howe")
        slots = ours(
            cron_of("0 */6 * * *", tz=zone),
            datetime(2026, 10, 3, 0, tzinfo=zone),
            datetime(2026, 10, 5, 0, tzinfo=zone),
        )
        assert [slot.astimezone(zone).hour for slot in slots] == [6, 12, 18, 0, 6, 12, 18]

    def test_every_sixth_hour_of_the_wall_clock_is_a_slot_at_every_change_in_every_zone(self) -> None:
        for name, moments in changes().items():
            zone, schedule = ZoneInfo(name), cron_of("0 */6 * * *", tz=name)
            for change in moments:
                begin, end = change - HALF_A_DAY, change + HALF_A_DAY
                hours = [
                    begin.replace(minute=0) + timedelta(minutes=15 * quarter) for quarter in range(1, 26 * 4)
                ]
                expected = [
                    when
                    for when in hours
                    if (wall := when.astimezone(zone)).minute == 0
                    and wall.hour % 6 == 0
                    and begin < when < end
                ]
                assert ours(schedule, begin, end) == expected, (name, change)

    @pytest.mark.parametrize("expression", BY_THE_CLOCK)
    def test_by_the_clock_a_second_library_has_the_same_slots(self, expression: str) -> None:
        for name, change in kinds_of_change():
            zone, begin, end = ZoneInfo(name), change - timedelta(hours=5), change + timedelta(hours=5)
            found = ours(cron_of(expression, tz=name), begin, end)
            assert found == croniters(expression, zone, begin, end), (name, change)
            assert found == matching(expression, zone, begin, end), (name, change)

    @pytest.mark.parametrize("expression", AT_A_TIME)
    def test_a_named_time_comes_once_a_day_or_at_the_end_of_the_gap(self, expression: str) -> None:
        for name, change in kinds_of_change():
            zone = ZoneInfo(name)
            begin, end = change - timedelta(days=2), change + timedelta(days=2)
            first = begin.astimezone(zone).replace(tzinfo=None, second=0) - timedelta(days=1)
            expected = set()
            for minute in range(6 * 24 * 60):
                wall = first + timedelta(minutes=minute)
                if AT_A_TIME[expression](wall):
                    while (
                        wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)
                        != wall
                    ):
                        wall += timedelta(minutes=1)
                    expected.add(wall.replace(tzinfo=zone).astimezone(UTC))
            assert ours(cron_of(expression, tz=name), begin, end) == sorted(
                when for when in expected if begin < when < end
            ), (name, change)

    @pytest.mark.parametrize("expression", [*BY_THE_CLOCK, *AT_A_TIME, "0 */6 * * *"])
    def test_slots_are_the_same_wherever_one_begins_to_look(self, expression: str) -> None:
        for name, change in kinds_of_change()[::5]:
            schedule = cron_of(expression, tz=name)
            slots = ours(schedule, change - HALF_A_DAY, change + HALF_A_DAY)
            for earlier, later in pairwise(slots):
                middle = slot_of(earlier + (later - earlier) / 2)
                assert schedule.after(middle) == slot_of(later), (name, change)

    def test_a_schedule_with_seconds_follows_the_clock_as_well(self) -> None:
        zone = ZoneInfo("Australia/Lord_Howe")
        schedule = cron_of("30 0 */6 * * *", tz=zone)
        change = datetime(2026, 10, 3, 15, 30, tzinfo=UTC)
        walls = [slot.astimezone(zone) for slot in ours(schedule, change - HALF_A_DAY, change + HALF_A_DAY)]
        assert [(wall.hour, wall.minute, wall.second) for wall in walls] == [
            (6 * turn % 24, 0, 30) for turn in range(3, 7)
        ]


LINES = [
    "0 3 * * 0", "0 3 * * 6", "0 3 * * sun", "0 3 * * mon-fri", "0 3 1 * 0", "0 3 13 * fri", "0 3 1-7 * mon",
    "0 0 last * *", "30 2 * * *", "0 2 * * *", "15 1,2,3 * * *", "*/15 * * * *", "0 */6 * * *", "5/20 1-5/2 * * *",
    "0 0 31 * *", "0 0 29 2 *", "0 12 * jan,jul *", "0 12 * jan-mar/2 mon-fri/2", "0 0 last feb *", "59 23 * * 4-6",
    "0 0 1,last * *", "*/7 * * * *", "0 0 * * 0,2,4", "0 0 */2 * *", "0 0 10-20/3 * *", "0 0 1/10 * *",
]  # fmt: skip

AT_CHANGES = [
    "15 2 * * *", "20 */2 * * *", "0 2,3 * * *", "0,30 2,3 * * *", "45 1 * * *", "*/20 2 * * *", "15,45 1-3 * * *",
    "0-59/7 1-3 * * *", "0 0 * * *", "30 0 * * *", "59 23 * * *", "0 0 1 * *", "30 1,2 * * *", "15,35 2 * * *",
]  # fmt: skip

REFUSED = [
    "0 3 * * 7", "0 3 * *", "0 0 * * * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 13 *",
    "0 0 * * fri-mon", "0 0 * * L", "0 0 L * *", "*/0 * * * *", "*/60 * * * *", "5-1 * * * *", "0 0 * xyz *",
    "? * * * *", "0 0 * * x", "a * * * *", "",
]  # fmt: skip


def slots_between(schedule: Schedule, begin: datetime, end: datetime) -> list[int]:
    found, slot = list[int](), schedule.after(slot_of(begin))
    while slot is not None and slot <= slot_of(end):
        found.append(slot)
        slot = schedule.after(slot)
    return found


def apschedulers(trigger: CronTrigger, begin: datetime, end: datetime) -> list[datetime]:
    """As its scheduler asks: from one firing to the next."""
    found: list[datetime] = []
    following = trigger.get_next_fire_time(None, begin + timedelta(seconds=1))
    while following is not None and following.astimezone(UTC) < end:
        if not found or following.astimezone(UTC) > found[-1]:
            found.append(following.astimezone(UTC))
        following = trigger.get_next_fire_time(following, following)
    return found


class TestApschedulersLines:
    @pytest.mark.parametrize("line", LINES)
    def test_a_line_means_what_it_means_there(self, line: str) -> None:
        trigger = CronTrigger.from_crontab(line, timezone="UTC")
        days = 60 if line.startswith(("*/", "5/")) else 3 * 366
        begin = datetime(2024, 1, 1, 7, 3, tzinfo=UTC)
        end = begin + timedelta(days=days if "*/" not in line[:3] else 10)
        assert ours(cron_of(line, dialect="apscheduler"), begin, end) == apschedulers(trigger, begin, end)

    @pytest.mark.parametrize("line", [line for line in LINES if "last" not in line and "31" not in line])
    def test_also_where_clocks_change(self, line: str) -> None:
        for name, change in kinds_of_change():
            trigger = CronTrigger.from_crontab(line, timezone=name)
            begin, end = change - HALF_A_DAY, change + HALF_A_DAY
            schedule = cron_of(line, tz=name, dialect="apscheduler")
            assert ours(schedule, begin, end) == apschedulers(trigger, begin, end), (name, change)

    @pytest.mark.parametrize("line", [*LINES, *AT_CHANGES])
    def test_slots_are_the_same_wherever_one_begins_to_look(self, line: str) -> None:
        for name, change in kinds_of_change()[::2]:
            schedule = cron_of(line, tz=name, dialect="apscheduler")
            slots = slots_between(schedule, change - timedelta(days=2), change + timedelta(days=2))
            for begin in range(-3 * 60, 5 * 60, 13):
                since = slot_of(change + timedelta(minutes=begin, seconds=1))
                later = next((slot for slot in slots if slot > since), None)
                assert later is None or schedule.after(since) == later, (name, change, begin)

    @pytest.mark.parametrize("line", ["0 0 1 * *", "0 0 * * 0", "30 0 * * *", "0 0 * * *"])
    @pytest.mark.parametrize(
        "name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"]
    )
    def test_no_slot_of_the_first_hour_of_a_day_is_lost_after_a_change(self, line: str, name: str) -> None:
        schedule, zone = cron_of(line, tz=name, dialect="apscheduler"), ZoneInfo(name)
        begin, end = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2027, 1, 1, 12, tzinfo=UTC)
        slots = slots_between(schedule, begin, end)
        found = {moment(slot).astimezone(zone).date() for slot in slots}
        days = [begin.date() + timedelta(days=number) for number in range(1, 366)]
        wanted = {"0 0 1 * *": lambda day: day.day == 1, "0 0 * * 0": lambda day: day.weekday() == 0}
        # A midnight that is missing has no slot, as in APScheduler.
        missing = {
            day
            for day in days
            if (at := datetime(day.year, day.month, day.day, tzinfo=zone))
            .astimezone(UTC)
            .astimezone(zone)
            .hour
            != at.hour
        }
        assert found - missing == {day for day in days if wanted.get(line, bool)(day)} - missing
        for earlier, later in pairwise(slots):
            assert schedule.after((earlier + later) // 2) == later

    @pytest.mark.parametrize("line", REFUSED)
    def test_what_is_refused_there_is_refused_here(self, line: str) -> None:
        with pytest.raises(ValueError):
            CronTrigger.from_crontab(line, timezone="UTC")
        with pytest.raises(PolicyError) as refused:
            cron_of(line, dialect="apscheduler")
        assert refused.value.field == "cron"

    def test_what_is_in_no_calendar_is_refused(self) -> None:
        with pytest.raises(PolicyError, match="never does"):
            cron_of("0 0 30 2 *", dialect="apscheduler")

    def test_an_unknown_dialect_is_refused_by_name(self) -> None:
        with pytest.raises(PolicyError) as refused:
            cron_of("0 3 * * 0", dialect="quartz")  # type: ignore[arg-type]
        assert refused.value.field == "dialect"

    def test_a_job_says_whose_line_it_has(self) -> None:
        jobs = Jobs(MemoryLeases())

        @jobs.cron("0 3 * * 0", tz="Europe/Berlin", dialect="apscheduler")
        async def weekly() -> None: ...

        @jobs.cron("0 3 * * 0", tz="Europe/Berlin")
        async def sundays() -> None: ...

        monday, sunday = (jobs._jobs[name].schedule for name in ("weekly", "sundays"))
        since = slot_of(datetime(2026, 11, 21, tzinfo=UTC))
        assert moment(monday.after(since) or 0).weekday() == 0
        assert moment(sunday.after(since) or 0).weekday() == 6
        assert monday.text != sunday.text
