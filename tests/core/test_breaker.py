"""When a store counts as away."""

from __future__ import annotations

from stampede_guard.core.breaker import OPEN_AFTER, Breaker, failed, succeeded


def test_one_failure_is_no_outage() -> None:
    assert not failed(Breaker()).is_open


def test_consecutive_failures_open_it() -> None:
    breaker = Breaker()
    for _ in range(OPEN_AFTER):
        assert not breaker.is_open
        breaker = failed(breaker)
    assert breaker.is_open


def test_an_answer_between_two_failures_starts_the_count_again() -> None:
    breaker = failed(succeeded(failed(Breaker())))
    assert not breaker.is_open
    assert breaker.failures == 1


def test_it_stays_open_while_more_fails_and_closes_with_one_answer() -> None:
    breaker = Breaker()
    for _ in range(OPEN_AFTER + 3):
        breaker = failed(breaker)
    assert breaker.is_open
    assert succeeded(breaker) == Breaker()


def test_a_healthy_breaker_is_not_made_anew_at_every_answer() -> None:
    breaker = Breaker()
    assert succeeded(breaker) is breaker
