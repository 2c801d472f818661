"""What a store keeps for one key."""

from __future__ import annotations

import dataclasses

import pytest

from stampede_guard.core.entry import (
    EMPTY,
    Entry,
    Failure,
    Freshness,
    Lease,
    Record,
    Slot,
    Value,
    freshness,
    prune,
)

NOW = 5_000_000


@pytest.mark.parametrize(
    ("remaining_ms", "expected"),
    [
        (1000, "fresh"),
        (301, "fresh"),
        (300, "stale"),
        (1, "stale"),
        (0, "stale"),
        (-1, "stale"),
        (1001, "stale"),
        (-2, "missing"),
    ],
)
def test_a_value_is_fresh_only_while_more_than_its_stale_time_and_no_more_than_its_total_remains(
    remaining_ms: int, expected: Freshness
) -> None:
    assert freshness(remaining_ms, 1000, 300) == expected


def test_a_value_without_stale_time_is_fresh_until_its_last_millisecond() -> None:
    assert freshness(1, 1000, 0) == "fresh"
    assert freshness(0, 1000, 0) == "stale"


def test_a_reading_carries_the_token_and_the_remaining_milliseconds() -> None:
    value = Value(b"x", 7, total_ms=1000, stale_ms=300, expires_us=NOW + 1_000_000)
    reading = value.reading(NOW + 250_000)
    assert (reading.body, reading.token, reading.remaining_ms) == (b"x", 7, 750)
    assert value.is_fresh(NOW + 250_000)
    assert not value.is_fresh(NOW + 700_000)


def test_the_highest_token_is_taken_over_all_surviving_parts() -> None:
    value = Value(b"x", 3, 1000, 0, NOW)
    failure = Failure(b"f", 5, NOW)
    lease = Lease("a", 7, "e", "", NOW)
    record = Record("e", last=9, fence=1, expires_us=NOW)
    assert EMPTY.highest_token == 0
    assert Entry(value=value).highest_token == 3
    assert Entry(value=value, failure=failure).highest_token == 5
    assert Entry(value=value, failure=failure, lease=lease).highest_token == 7
    assert Entry(value=value, failure=failure, lease=lease, record=record).highest_token == 9


def test_pruning_removes_exactly_the_parts_whose_time_is_over() -> None:
    entry = Entry(
        value=Value(b"x", 1, 1000, 0, NOW),
        failure=Failure(b"f", 1, NOW),
        record=Record("e", 1, 1, NOW),
        lease=Lease("a", 1, "e", "", NOW),
        waiters=frozenset({"i"}),
        slots=(Slot("a", NOW), Slot("b", NOW + 1)),
    )
    assert prune(entry, NOW - 1) == entry
    assert prune(entry, NOW) == Entry(waiters=frozenset({"i"}), slots=(Slot("b", NOW + 1),))


@pytest.mark.parametrize("kind", [Value, Failure, Record, Lease, Slot, Entry])
def test_parts_of_an_entry_cannot_be_changed(kind: type) -> None:
    assert dataclasses.fields(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        EMPTY.value = None  # type: ignore[misc]
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
