"""Reading, asking and renewing, each step on its own. How they play together is searched in `test_search.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stampede_guard.core import scripts
from stampede_guard.core.entry import EMPTY, Entry, Failure, Lease, Record, Value
from stampede_guard.core.scripts import (
    FailedRecently,
    Found,
    Granted,
    Held,
    Renewal,
)
from tests.core.given import NOW, SECOND, acquire, ask, everybody, granted, invalidate, stored

# --- read -----------------------------------------------------------------------------------------


def test_a_read_of_nothing_is_nothing() -> None:
    assert scripts.read(EMPTY, now_us=NOW) is None


def test_a_read_returns_fresh_and_stale_values_with_their_remaining_time_until_they_end() -> None:
    entry, grant = granted()
    entry = stored(grant, entry)
    for waited_ms in (0, 7000, 9999):
        reading = scripts.read(entry, now_us=NOW + waited_ms * 1000)
        assert reading is not None
        assert (reading.body, reading.token, reading.remaining_ms) == (b"v", grant.token, 10_000 - waited_ms)
    assert scripts.read(entry, now_us=NOW + 10 * SECOND) is None


# --- acquire --------------------------------------------------------------------------------------


def test_the_first_to_ask_gets_the_lease_a_token_and_a_record_before_it_computes() -> None:
    entry, grant = granted()
    assert grant.epoch == "epoch-of-a"
    assert entry.record == Record("epoch-of-a", grant.token, fence=NOW, expires_us=NOW + 60 * SECOND)
    assert entry.lease == Lease("a", grant.token, "epoch-of-a", "inbox-a", NOW + 3 * SECOND, total_ms=3000)
    assert grant.token > entry.record.fence


def test_the_same_flight_asking_again_gets_the_same_token_and_all_of_its_time() -> None:
    entry, grant = granted()
    assert entry.lease is not None
    missed = replace(entry, lease=replace(entry.lease, inbox="inbox-of-before", missing_since_us=NOW))
    after, answer = acquire(missed, now_us=NOW + SECOND)
    assert answer == grant
    assert after.lease == replace(entry.lease, expires_us=NOW + 4 * SECOND), "as after a renewal"


def test_the_same_flight_asking_after_an_invalidation_gets_a_token_above_the_fence() -> None:
    entry, grant = granted()
    entry, fence, _ = invalidate(entry)
    after, answer = acquire(entry)
    assert isinstance(answer, Granted)
    assert answer.token > fence > grant.token
    assert after.lease is not None
    assert after.lease.token == answer.token


def test_the_same_flight_asking_after_the_record_was_lost_gets_a_grant_of_the_new_epoch() -> None:
    entry, grant = granted()
    asked = replace(ask(), epoch="another")
    _, answer = acquire(replace(entry, record=None), asked)
    assert isinstance(answer, Granted)
    assert answer.epoch == "another"
    assert answer.token > grant.token


def test_everybody_else_becomes_a_waiter_in_the_same_step_and_learns_the_fence() -> None:
    entry, _ = granted()
    entry, fence, _ = invalidate(entry)
    entry, answer = acquire(entry, ask("b"))
    assert answer == Held(fence, suspect=False)
    assert entry.waiters == everybody("b")
    assert entry.lease is not None
    assert entry.lease.owner == "a"


def test_an_asker_without_a_confirmed_inbox_is_not_registered() -> None:
    entry, _ = granted()
    entry, answer = acquire(entry, ask("b", inbox=""))
    assert isinstance(answer, Held)
    assert not entry.waiters


def test_a_fresh_value_is_found_instead_of_computed_again() -> None:
    entry, grant = granted()
    entry = stored(grant, entry)
    after, answer = acquire(entry, ask("b"))
    assert isinstance(answer, Found)
    assert (answer.reading.body, answer.reading.token) == (b"v", grant.token)
    assert after == entry


def test_a_stale_value_is_computed_anew_and_stays_readable() -> None:
    entry, grant = granted()
    entry = stored(grant, entry)
    entry, answer = acquire(entry, ask("b"), now_us=NOW + 6 * SECOND)
    assert isinstance(answer, Granted)
    assert answer.token > grant.token
    assert entry.value is not None


def test_a_fresh_value_is_no_answer_to_who_wants_something_newer() -> None:
    entry, grant = granted()
    entry = stored(grant, entry)
    _, older = acquire(entry, ask("b", newer_than=grant.token - 1))
    assert isinstance(older, Found)
    _, answer = acquire(entry, ask("b", newer_than=grant.token))
    assert isinstance(answer, Granted)
    assert answer.token > grant.token


def test_a_recent_failure_is_answered_until_its_time_is_over() -> None:
    entry, grant = granted()
    entry = stored(grant, entry, outcome="failure", body=b"no", total_ms=1000)
    _, answer = acquire(entry, ask("b"))
    assert answer == FailedRecently(b"no", grant.token)
    _, answer = acquire(entry, ask("b"), now_us=NOW + SECOND)
    assert isinstance(answer, Granted)


def test_a_failure_below_the_fence_is_not_answered() -> None:
    record = Record("e", last=9, fence=9, expires_us=NOW + SECOND)
    entry = Entry(record=record, failure=Failure(b"no", 8, NOW + SECOND))
    assert isinstance(acquire(entry)[1], Granted)
    entry = Entry(record=record, failure=Failure(b"no", 9, NOW + SECOND))
    assert isinstance(acquire(entry)[1], FailedRecently)


def test_tokens_grow_although_the_clock_stands_still_or_goes_back() -> None:
    entry, tokens = EMPTY, []
    for now_us in (NOW, NOW, NOW - SECOND, NOW - 2 * SECOND, NOW):
        entry, grant = granted(entry=replace(entry, lease=None), now_us=now_us)
        tokens.append(grant.token)
    assert tokens == sorted(set(tokens))


def test_a_token_is_above_every_surviving_part_when_the_record_was_lost() -> None:
    value = Value(b"old", NOW + 50, 10_000, 10_000, NOW + 9 * SECOND)
    entry, grant = granted(entry=Entry(value=value))
    assert grant.token > NOW + 50
    assert entry.record is not None
    assert entry.record.fence == NOW + 50


def test_acquire_never_moves_an_existing_fence() -> None:
    entry, _ = granted()
    entry, fence, _ = invalidate(entry)
    for flight in ("a", "b", "c"):
        entry, _ = acquire(entry, ask(flight), now_us=NOW + SECOND)
        assert entry.record is not None
        assert entry.record.fence == fence


def test_an_ask_lets_the_record_live_longer_and_never_shorter() -> None:
    entry, _ = granted()
    assert entry.record is not None
    expires_us = entry.record.expires_us
    entry, _ = acquire(entry, ask("b"), now_us=NOW + SECOND)
    assert entry.record is not None
    assert entry.record.expires_us == expires_us + SECOND
    entry, _ = acquire(entry, replace(ask("b"), record_ms=1), now_us=NOW + SECOND)
    assert entry.record is not None
    assert entry.record.expires_us == expires_us + SECOND


# --- the holder's sign of life --------------------------------------------------------------------


def test_a_holder_is_replaced_at_the_second_look_after_the_takeover_gap() -> None:
    entry, first = granted()
    gone = everybody("b", "c")
    entry, answer = acquire(entry, ask("b"), listening=gone)
    assert isinstance(answer, Held)
    assert answer.suspect
    assert answer.first
    entry, answer = acquire(entry, ask("c"), now_us=NOW + 249_999, listening=gone)
    assert isinstance(answer, Held)
    assert answer.suspect
    assert not answer.first
    entry, answer = acquire(entry, ask("b"), now_us=NOW + 250_000, listening=gone)
    assert isinstance(answer, Granted)
    assert answer.token > first.token
    assert entry.lease is not None
    assert (entry.lease.owner, entry.lease.missing_since_us) == ("b", None)


def test_a_holder_that_is_seen_again_in_between_is_no_suspect() -> None:
    entry, _ = granted()
    entry, _ = acquire(entry, ask("b"), listening=everybody("b"))
    entry, answer = acquire(entry, ask("b"), now_us=NOW + SECOND)
    assert answer == Held(NOW, suspect=False)
    entry, answer = acquire(entry, ask("b"), now_us=NOW + 2 * SECOND, listening=everybody("b"))
    assert answer == Held(NOW, suspect=True)


def test_a_renewal_clears_the_first_sighting() -> None:
    entry, grant = granted()
    entry, _ = acquire(entry, ask("b"), listening=everybody("b"))
    entry, held = scripts.renew(entry, Renewal("a", grant.token, "inbox-a", 3000, 60_000), now_us=NOW)
    assert held
    entry, answer = acquire(entry, ask("b"), now_us=NOW + SECOND, listening=everybody("b"))
    assert isinstance(answer, Held)


@pytest.mark.parametrize("inbox", ["", "inbox-a"])
def test_where_liveness_is_unknown_only_the_deadline_ends_a_lease(inbox: str) -> None:
    entry, _ = acquire(EMPTY, ask(inbox=inbox), listening=None)
    for waited_us in (0, SECOND, 2 * SECOND):
        listening = None if inbox else everybody("b")
        entry, answer = acquire(entry, ask("b"), now_us=NOW + waited_us, listening=listening)
        assert answer == Held(NOW, suspect=False)
    _, answer = acquire(entry, ask("b"), now_us=NOW + 3 * SECOND, listening=None)
    assert isinstance(answer, Granted)


def test_a_lease_does_not_name_an_inbox_that_the_store_does_not_see() -> None:
    entry, _ = acquire(EMPTY, ask(), listening=everybody("b"))
    assert entry.lease is not None
    assert entry.lease.inbox == ""
    for waited_us in (0, SECOND):
        entry, answer = acquire(entry, ask("b"), now_us=NOW + waited_us, listening=everybody("b"))
        assert answer == Held(NOW, suspect=False)


def test_a_renewal_does_not_name_an_inbox_that_the_store_does_not_see() -> None:
    entry, grant = granted()
    renewal = Renewal("a", grant.token, "inbox-a", 3000, 60_000)
    entry, _ = scripts.renew(entry, renewal, now_us=NOW, listening=everybody("b"))
    assert entry.lease is not None
    assert entry.lease.inbox == ""


# --- renew ----------------------------------------------------------------------------------------


def test_a_renewal_moves_the_deadline_from_now_also_one_that_a_clock_step_stretched() -> None:
    entry, grant = granted()
    assert entry.lease is not None
    stretched = replace(entry, lease=replace(entry.lease, expires_us=NOW + 900 * SECOND))
    renewal = Renewal("a", grant.token, "inbox-a", 3000, 60_000)
    after, held = scripts.renew(stretched, renewal, now_us=NOW + SECOND)
    assert held
    assert after.lease is not None
    assert after.lease.expires_us == NOW + 4 * SECOND
    assert after.record is not None
    assert after.record.expires_us == NOW + 61 * SECOND


@pytest.mark.parametrize("flight", ["a", "b"])
@pytest.mark.parametrize("more", [0, 1])
def test_only_owner_and_token_together_renew(flight: str, more: int) -> None:
    entry, grant = granted()
    after, held = scripts.renew(
        entry, Renewal(flight, grant.token + more, "x", 3000, 60_000), now_us=NOW + SECOND
    )
    assert held is (flight == "a" and more == 0)
    if not held:
        assert after == entry


def test_a_renewal_never_creates_a_lease_or_a_record() -> None:
    entry, grant = granted()
    renewal = Renewal("a", grant.token, "inbox-a", 3000, 60_000)
    assert scripts.renew(EMPTY, renewal, now_us=NOW) == (EMPTY, False)
    after, held = scripts.renew(entry, renewal, now_us=NOW + 3 * SECOND)
    assert not held
    assert after.lease is None
    after, held = scripts.renew(replace(entry, record=None), renewal, now_us=NOW)
    assert held
    assert after.record is None
