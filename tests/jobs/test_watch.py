"""Who has another schedule than the one that counts takes it back only after it was quiet before his own eyes."""

from __future__ import annotations

from dataclasses import replace

from stampede_guard.jobs.following.watch import SEEN_FOR, SIGNS, Watch
from stampede_guard.jobs.messages import JobView

THEIRS = JobView(
    job="shop:nightly",
    schedule="every 60 s",
    fingerprint="theirs",
    rhythm=60.0,
    version=0,
    registered_at=1_000.0,
    scheduled_at=1_000.0,
    at=1_000.0,
    seen_at=1_000.0,
    seen_for=40.0,
)


def looks(watch: Watch, view: JobView, *moments: float) -> list[bool]:
    return [watch.left(view, now=moment) for moment in moments]


def test_a_schedule_is_left_when_none_of_its_signs_came_for_as_long_as_one_is_good() -> None:
    assert (SEEN_FOR, SIGNS) == (2.0, 4)
    assert Watch.pause(THEIRS) == 10.0
    assert looks(Watch("mine"), THEIRS, 0, 10, 20, 30, 39.9) == [False] * 5
    assert looks(Watch("mine"), THEIRS, 0, 10, 20, 30, 40, 50) == [False] * 4 + [True] * 2


def test_who_looks_more_often_comes_to_the_same() -> None:
    assert looks(Watch("mine"), THEIRS, *range(0, 40, 2)) == [False] * 20
    assert looks(Watch("mine"), THEIRS, *range(0, 42, 2))[-1]


def test_a_sign_begins_it_anew() -> None:
    watch = Watch("mine")
    looks(watch, THEIRS, 0, 10, 20, 30)
    assert looks(watch, replace(THEIRS, seen_at=1_035.0), 40, 50, 60, 70, 80) == [False] * 4 + [True]


def test_so_does_another_schedule() -> None:
    watch = Watch("mine")
    looks(watch, THEIRS, 0, 10, 20, 30)
    assert looks(watch, replace(THEIRS, fingerprint="third"), 40, 50, 60, 70, 80) == [False] * 4 + [True]


def test_a_look_that_was_not_answered_begins_it_anew() -> None:
    watch = Watch("mine")
    looks(watch, THEIRS, 0, 10, 20, 30)
    watch.blind()
    assert looks(watch, THEIRS, 40, 50, 60, 70, 80) == [False] * 4 + [True]


def test_a_worker_that_slept_has_seen_nothing_meanwhile() -> None:
    assert looks(Watch("mine"), THEIRS, 0, 86_400, 86_410, 86_420) == [False] * 4
    assert looks(Watch("mine"), THEIRS, 0, 86_400, 86_410, 86_420, 86_430)[-1]


def test_by_the_back_ends_clock_alone_nothing_is_left() -> None:
    assert looks(Watch("mine"), replace(THEIRS, at=99_000.0), 0, 1, 2, 3) == [False] * 4


def test_ones_own_schedule_is_never_left() -> None:
    assert not any(looks(Watch("theirs"), THEIRS, *range(0, 900, 10)))


def test_a_schedule_whose_workers_give_no_signs_is_never_left() -> None:
    assert not any(looks(Watch("mine"), replace(THEIRS, seen_for=0.0), *range(0, 900, 10)))
