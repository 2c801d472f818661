"""What a step does to the rows, where no back end's answer shows it at once."""

from __future__ import annotations

from stampede_guard.leases.runs import rules
from stampede_guard.leases.runs.words import Claim, Registration
from stampede_guard.leases.words import Owner

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
