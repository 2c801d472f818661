"""Slots follow from the schedule alone, also where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.errors import PolicyError
from stampede_guard.jobs.schedules.schedule import (
    Cron,
    Every,
    fingerprint,
    moment,
    rhythm,
    slot_of,
    slots_after,
)


def at(text: str) -> int:
    return slot_of(datetime.fromisoformat(text).replace(tzinfo=UTC))


def times(schedule: Cron | Every, since: str, count: int) -> list[str]:
    return [f"{moment(slot):%m-%d %H:%M:%S}" for slot in islice(slots_after(schedule, at(since)), count)]


def test_an_interval_divides_the_day_from_midnight() -> None:
    assert times(Every.of(21_600), "2026-11-21T05:00", 3) == [
        "11-21 06:00:00",
        "11-21 12:00:00",
        "11-21 18:00:00",
    ]


def test_an_interval_counts_from_its_anchor_in_both_directions() -> None:
    seven = Every.of(7 * 3600, anchor=datetime(2026, 1, 1, 2, tzinfo=UTC))
    assert times(seven, "2025-12-31T00:00", 4) == [
        "12-31 05:00:00",
        "12-31 12:00:00",
        "12-31 19:00:00",
        "01-01 02:00:00",
    ]


def test_an_anchor_may_stand_in_any_time_zone() -> None:
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=5)))
    assert Every.of(3600 * 7, anchor=there) == Every.of(3600 * 7, anchor=there.astimezone(UTC))


@pytest.mark.parametrize(
    ("seconds", "anchor", "field"),
    [
        (0, None, "every"),
        (0.5, None, "every"),
        (True, None, "every"),
        (float("nan"), None, "every"),
        (float("inf"), None, "every"),
        ("300", None, "every"),
        (7 * 3600, None, "anchor"),
        (300, datetime(2026, 1, 1), "anchor"),
        (300, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "anchor"),
        (300, datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-1))), "anchor"),
    ],
)
def test_an_interval_that_means_nothing_is_refused_by_name(
    seconds: float, anchor: datetime, field: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        Every.of(seconds, anchor=anchor)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("expression", "tz", "field"),
    [
        ("0 3 * *", "UTC", "cron"),
        ("61 * * * *", "UTC", "cron"),
        ("every day", "UTC", "cron"),
        ("", "UTC", "cron"),
        ("0 0 30 2 *", "UTC", "cron"),
        (None, "UTC", "cron"),
        ("0 3 * * *", "Europe/Nowhere", "tz"),
        ("0 3 * * *", "../../etc/passwd", "tz"),
        ("0 3 * * *", None, "tz"),
    ],
)
def test_a_cron_expression_that_means_nothing_is_refused_by_name(
    expression: str, tz: str, field: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        Cron.of(expression, tz=tz)
    assert refused.value.field == field


def test_a_night_follows_the_time_zone_through_the_year() -> None:
    nightly = Cron.of("0 3 * * *", tz="Europe/Berlin")
    assert times(nightly, "2026-10-23T00:00", 4) == [
        "10-23 01:00:00",
        "10-24 01:00:00",
        "10-25 02:00:00",
        "10-26 02:00:00",
    ]


def test_an_hour_that_is_missing_is_run_once_and_at_once() -> None:
    """On 2026-03-29 clocks in Berlin go from 02:00 to 03:00 (01:00 UTC)."""
    assert times(Cron.of("30 2 * * *", tz="Europe/Berlin"), "2026-03-28T12:00", 2) == [
        "03-29 01:00:00",
        "03-30 00:30:00",
    ]


def test_an_hour_that_comes_twice_is_run_once() -> None:
    """On 2026-10-25 clocks in Berlin go from 03:00 back to 02:00 (01:00 UTC)."""
    assert times(Cron.of("30 2 * * *", tz="Europe/Berlin"), "2026-10-24T12:00", 2) == [
        "10-25 00:30:00",
        "10-26 01:30:00",
    ]


def test_every_quarter_of_an_hour_neither_skips_nor_repeats_where_clocks_change() -> None:
    quarterly = Cron.of("*/15 * * * *", tz="Europe/Berlin")
    for since in ("2026-03-28T22:00", "2026-10-24T22:00"):
        found = list(islice(slots_after(quarterly, at(since)), 40))
        assert {later - earlier for earlier, later in pairwise(found)} == {900_000}


@given(
    st.sampled_from(["*/7 * * * *", "5 4 * * MON-FRI", "0 0 1 * *", "30 2 * * *", "15 */5 * * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.integers(min_value=1_700_000_000_000, max_value=1_900_000_000_000),
)
def test_slots_do_not_depend_on_where_one_begins_to_look(expression: str, tz: str, since: int) -> None:
    schedule = Cron.of(expression, tz=tz)
    first, second, third = islice(slots_after(schedule, since), 3)
    assert since < first < second < third
    assert schedule.after(first) == second
    assert schedule.after(first - 1) == first
    assert schedule.after(second - 1) == second


def test_the_rhythm_is_the_longest_gap() -> None:
    working_days = Cron.of("0 6 * * MON-FRI")
    assert rhythm(working_days, at("2026-11-21T00:00")) == 3 * 86_400
    assert rhythm(Every.of(300), 0) == 300


def test_another_schedule_has_another_fingerprint() -> None:
    assert fingerprint(Cron.of("0  3 * * *")) == fingerprint(Cron.of("0 3 * * *"))
    assert fingerprint(Cron.of("0 3 * * *", tz="Europe/Berlin")) != fingerprint(Cron.of("0 3 * * *"))


@given(st.integers(min_value=0, max_value=4_000_000_000_000))
def test_a_slot_and_its_moment_are_the_same(slot: int) -> None:
    assert slot_of(moment(slot)) == slot


def test_a_zone_is_the_same_as_its_name() -> None:
    assert Cron.of("0 3 * * *", tz=ZoneInfo("Europe/Berlin")) == Cron.of("0 3 * * *", tz="Europe/Berlin")


@pytest.mark.parametrize("seconds", [1.001, 1.2, 2.4, 4.35, 8.64, 1.1, 86399.999])
def test_an_interval_of_whole_milliseconds_is_one_however_a_float_writes_it(seconds: float) -> None:
    every = Every.of(seconds, anchor=datetime(1970, 1, 1, tzinfo=UTC))
    assert every.after(0) == int(str(seconds).replace(".", "").ljust(len(str(int(seconds))) + 3, "0"))


@pytest.mark.parametrize("seconds", [1.2, 2.4, 8.64, 0.9 * 3])
def test_what_divides_a_day_in_milliseconds_needs_no_anchor(seconds: float) -> None:
    assert Every.of(round(seconds, 3)).after(0) == round(seconds * 1000)


def test_two_intervals_have_two_texts() -> None:
    texts = [Every(seconds).text for seconds in (60.0, 86_400.0, 86_400.001, 1_000_000.0, 1_000_000.5, 1.2)]
    assert texts == [
        "every 60 s", "every 86400 s", "every 86400.001 s", "every 1000000 s", "every 1000000.5 s", "every 1.2 s",
    ]  # fmt: skip


def test_half_a_millisecond_is_refused_with_what_to_write() -> None:
    with pytest.raises(PolicyError, match=r"whole milliseconds, such as 1\.0"):
        Every.of(1.0005)
