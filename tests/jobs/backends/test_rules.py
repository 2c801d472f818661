"""What a step does to the rows, where no back end's answer shows it at once."""

from __future__ import annotations

from stampede_guard.jobs import rules
from stampede_guard.jobs.messages import Claim, Claimed, Early, Registration
from stampede_guard.leases.messages import Owner

JOB = rules.register(
    None, Registration(job="j", schedule="s", fingerprint="f", rhythm=60.0), now=0.0
)  # fmt: skip


def claimed(now: float, row: rules.RunRow | None = None, *, alive_for: float = 90.0) -> rules.RunRow:
    asked = Claim(
        job="j", slot=10_000, run="r", owner=Owner(process="p"), fingerprint="f", alive_for=alive_for
    )
    _, after, _ = rules.claim(JOB, row, asked, now=now)
    assert after is not None
    return after


def test_a_claim_that_is_asked_again_counts_from_the_new_question() -> None:
    first = claimed(11.0)
    assert first.alive_until == 101.0
    assert claimed(20.0, first).alive_until == 110.0


def test_a_claim_that_is_asked_again_never_shortens_what_was_answered() -> None:
    assert claimed(20.0, claimed(11.0), alive_for=1.0).alive_until == 101.0


def test_a_beat_with_an_older_token_leaves_the_greater_one() -> None:
    row = rules.beat(claimed(11.0), mine="r", alive_for=90.0, token=7, now=12.0)
    assert row is not None and row.token == 7
    row = rules.beat(row, mine="r", alive_for=90.0, token=0, now=13.0)
    assert row is not None and row.token == 7


def test_a_slot_begins_at_its_moment_and_not_before() -> None:
    asked = Claim(job="j", slot=10_000, run="r", owner=Owner(process="p"), fingerprint="f", alive_for=90.0)
    assert rules.claim(JOB, None, asked, now=9.999)[2] == Early(10.0 - 9.999)
    assert rules.claim(JOB, None, asked, now=10.0)[2] == Claimed(1, 0.0)
    recorded = {"slot": 10_000, "outcome": "missed", "error": ""}
    assert rules.record(JOB, None, **recorded, now=9.999) is None
    assert rules.record(JOB, None, **recorded, now=10.0) is not None


def test_a_run_lapses_at_its_moment_and_not_before() -> None:
    row = claimed(11.0)
    assert rules.lapsed(JOB, row, now=100.999) == (JOB, row)
    assert rules.lapsed(JOB, row, now=101.0)[1].outcome == "abandoned"


def test_a_sign_is_good_to_its_moment_and_not_beyond() -> None:
    mine = Registration(job="j", schedule="g", fingerprint="g", rhythm=60.0, seen_for=40.0)
    other = rules.register(JOB, mine, now=100.0)
    assert (other.seen_at, other.seen_for, other.scheduled_at) == (100.0, 40.0, 100.0)
    again = rules.follow(other, mine, now=110.0)
    assert rules.take_over(again, JOB.registration, now=149.999) is None
    taken = rules.take_over(again, JOB.registration, now=150.0)
    assert taken is not None
    assert (taken.scheduled_at, taken.seen_at, taken.registration) == (110.0, 150.0, JOB.registration)


def test_a_slot_that_was_pruned_is_not_forgotten_for_an_older_one() -> None:
    row = rules.pruned(JOB, [30_000, 20_000])
    assert row.pruned_to == 30_000
    assert rules.pruned(row, [10_000]).pruned_to == 30_000
    assert rules.pruned(row, []) == row
