"""Each slot of a schedule is in exactly one of the answers, however long nobody looked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.jobs.schedules.due import due
from stampede_guard.jobs.schedules.schedule import Every

TEN = Every.of(10)


def test_what_is_due_is_run_and_the_next_is_told() -> None:
    found = due(TEN, since=0, now=10_500, misfire_grace=60, coalesce=True)
    assert (found.run, found.missed, found.following) == ((10_000,), (), 20_000)


def test_of_several_slots_only_the_latest_is_run() -> None:
    found = due(TEN, since=0, now=35_000, misfire_grace=60, coalesce=True)
    assert (found.run, found.coalesced) == ((30_000,), (10_000, 20_000))


def test_without_coalescing_all_that_may_are_run_in_order() -> None:
    found = due(TEN, since=0, now=35_000, misfire_grace=60, coalesce=False)
    assert (found.run, found.coalesced) == ((10_000, 20_000, 30_000), ())


def test_a_slot_that_is_too_late_is_missed_and_one_at_the_limit_is_not() -> None:
    found = due(TEN, since=0, now=30_000, misfire_grace=10, coalesce=False)
    assert (found.missed, found.run) == ((10_000,), (20_000, 30_000))


class Twice:
    """A schedule that ends."""

    text = "at 10 and 20 s"

    def after(self, slot: int) -> int | None:
        return next((later for later in (10_000, 20_000) if later > slot), None)


def test_a_schedule_that_ends_has_no_slot_after_its_last() -> None:
    found = due(Twice(), since=0, now=90_000, misfire_grace=100, coalesce=False)
    assert (found.run, found.following, found.looked_to) == ((10_000, 20_000), None, 20_000)


def test_a_slot_in_the_future_is_in_no_answer() -> None:
    found = due(TEN, since=10_000, now=19_999, misfire_grace=10, coalesce=True)
    assert (found.run, found.missed, found.following) == ((), (), 20_000)


@given(
    since=st.integers(min_value=0, max_value=200_000),
    away=st.integers(min_value=0, max_value=400_000),
    grace=st.integers(min_value=0, max_value=100),
    coalesce=st.booleans(),
    most=st.integers(min_value=1, max_value=7),
)
def test_in_portions_every_slot_has_one_answer(
    since: int, away: int, grace: int, coalesce: bool, most: int
) -> None:
    now = since + away
    told: list[int] = []
    looked_to = since
    while True:
        found = due(TEN, since=looked_to, now=now, misfire_grace=grace, coalesce=coalesce, most=most)
        portion = [*found.run, *found.missed, *found.coalesced]
        assert len(portion) <= most
        told += portion
        if found.looked_to == looked_to:
            break
        looked_to = found.looked_to
    assert sorted(told) == list(range((since // 10_000 + 1) * 10_000, now + 1, 10_000))


def test_of_several_portions_that_are_coalesced_only_the_latest_slot_runs() -> None:
    looked_to, ran, coalesced = 0, [], 0
    for _ in range(9):
        found = due(TEN, since=looked_to, now=105_000, misfire_grace=1_000, coalesce=True, most=3)
        ran += found.run
        coalesced += len(found.coalesced)
        looked_to = found.looked_to
    assert (ran, coalesced) == ([100_000], 9)
