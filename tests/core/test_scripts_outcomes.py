"""Publishing, invalidating, giving back and falling back, each step on its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stampede_guard.core import scripts
from stampede_guard.core.entry import EMPTY, Entry, Failure, Record, Slot, Value
from stampede_guard.core.scripts import (
    Denied,
    FallbackAsk,
    Found,
    Granted,
    Message,
    Outcome,
)
from tests.core.given import NOW, SECOND, acquire, ask, granted, invalidate, publication, stored

# --- publish --------------------------------------------------------------------------------------


def test_a_published_value_raises_the_fence_ends_the_lease_and_wakes_the_waiters() -> None:
    entry, grant = granted()
    entry, _ = acquire(entry, ask("b"))
    entry, _ = acquire(entry, ask("c"))
    after, was_stored, messages = scripts.publish(entry, publication(grant), now_us=NOW)
    assert was_stored
    assert after.record is not None
    assert after.record.fence == grant.token
    assert after.lease is None
    assert after.waiters == frozenset()
    assert [inbox for inbox, _ in messages] == ["inbox-b", "inbox-c"]
    message = messages[0][1]
    assert (message.kind, message.token) == ("value", grant.token)
    assert message.reading == scripts.read(after, now_us=NOW)


@pytest.mark.parametrize(("size", "travels"), [(100, True), (101, False)])
def test_a_value_travels_in_the_message_up_to_the_inline_size(size: int, travels: bool) -> None:
    entry, grant = granted()
    entry, _ = acquire(entry, ask("b"))
    _, _, messages = scripts.publish(entry, publication(grant, body=b"x" * size), now_us=NOW)
    assert (messages[0][1].reading is not None) is travels


def test_what_began_before_an_invalidation_is_refused_and_still_ends_the_lease_and_wakes() -> None:
    entry, grant = granted()
    entry, fence, _ = invalidate(entry)
    entry, _ = acquire(entry, ask("b"))
    after, was_stored, messages = scripts.publish(entry, publication(grant), now_us=NOW)
    assert not was_stored
    assert (after.value, after.lease) == (None, None)
    assert after.record is not None
    assert after.record.fence == fence
    assert messages == (("inbox-b", Message("again", grant.token)),)


@pytest.mark.parametrize("outcome", ["value", "failure"])
def test_nothing_is_stored_without_the_record_of_the_grant(outcome: Outcome) -> None:
    entry, grant = granted()
    assert entry.record is not None
    for record in (None, replace(entry.record, epoch="another", fence=0)):
        lost = replace(entry, record=record)
        after, was_stored, _ = scripts.publish(lost, publication(grant, outcome=outcome), now_us=NOW)
        assert not was_stored
        assert (after.value, after.failure, after.lease) == (None, None, None)


def test_an_older_token_does_not_replace_a_newer_value_even_where_the_fence_was_lost() -> None:
    entry, grant = granted()
    newer = Value(b"newer", grant.token + 1, 10_000, 0, NOW + SECOND)
    after, was_stored, _ = scripts.publish(replace(entry, value=newer), publication(grant), now_us=NOW)
    assert not was_stored
    assert after.value == newer


def test_publishing_twice_leaves_the_same_value() -> None:
    entry, grant = granted()
    once = stored(grant, entry)
    twice, was_stored, messages = scripts.publish(once, publication(grant), now_us=NOW)
    assert was_stored
    assert twice == once
    assert messages == ()


def test_a_late_publication_leaves_the_lease_of_the_next_holder() -> None:
    entry, first = granted()
    entry, _ = granted("b", replace(entry, lease=None))
    after, was_stored, _ = scripts.publish(entry, publication(first), now_us=NOW)
    assert was_stored
    assert after.lease == entry.lease


def test_a_publication_under_an_earlier_token_leaves_the_later_lease_of_the_same_flight() -> None:
    entry, first = granted()
    entry, _, _ = invalidate(entry)
    entry, second = granted("a", entry)
    after, was_stored, _ = scripts.publish(entry, publication(first), now_us=NOW)
    assert not was_stored
    assert after.lease is not None
    assert after.lease.token == second.token


def test_a_failure_is_kept_for_its_time_and_does_not_raise_the_fence() -> None:
    entry, grant = granted()
    entry, _ = acquire(entry, ask("b"))
    assert entry.record is not None
    fence = entry.record.fence
    after, was_stored, messages = scripts.publish(
        entry, publication(grant, outcome="failure", body=b"no", total_ms=1000), now_us=NOW
    )
    assert was_stored
    assert after.failure == Failure(b"no", grant.token, NOW + SECOND, total_ms=1000)
    assert after.record is not None
    assert after.record.fence == fence
    assert messages == (("inbox-b", Message("failure", grant.token, body=b"no")),)


def test_a_failure_without_a_time_is_told_and_not_kept() -> None:
    entry, grant = granted()
    entry, _ = acquire(entry, ask("b"))
    after, was_stored, messages = scripts.publish(
        entry, publication(grant, outcome="failure", body=b"no", total_ms=0), now_us=NOW
    )
    assert was_stored
    assert after.failure is None
    assert messages[0][1].kind == "failure"


def test_a_value_removes_the_failure_before_it() -> None:
    entry, grant = granted()
    entry = stored(grant, entry, outcome="failure", body=b"no", total_ms=60_000)
    entry, grant = granted("b", replace(entry, failure=None))
    entry = replace(entry, failure=Failure(b"no", 1, NOW + SECOND))
    assert stored(grant, entry, "b").failure is None


# --- invalidate -----------------------------------------------------------------------------------


def test_an_invalidation_deletes_what_is_stored_and_raises_the_fence_above_every_token() -> None:
    entry, grant = granted()
    entry = replace(stored(grant, entry), failure=Failure(b"no", NOW + 77, NOW + SECOND))
    after, fence, _ = invalidate(entry)
    assert (after.value, after.failure) == (None, None)
    assert fence > NOW + 77
    assert after.record is not None
    assert (after.record.fence, after.record.last) == (fence, fence)


def test_an_invalidation_leaves_the_lease_and_wakes_the_waiters() -> None:
    entry, _ = granted()
    entry, _ = acquire(entry, ask("b"))
    after, fence, messages = invalidate(entry)
    assert after.lease == entry.lease
    assert after.waiters == frozenset()
    assert messages == (("inbox-b", Message("again", fence)),)


def test_an_invalidation_of_nothing_leaves_a_record_that_refuses_what_was_under_way() -> None:
    entry, grant = granted()
    after, fence, _ = invalidate(EMPTY)
    assert after.record == Record("epoch-of-invalidation", fence, fence, NOW + 60 * SECOND)
    _, was_stored, _ = scripts.publish(after, publication(grant), now_us=NOW)
    assert not was_stored
    assert entry.record is not None


def test_invalidations_in_one_microsecond_each_raise_the_fence() -> None:
    entry, first, _ = invalidate(EMPTY)
    _, second, _ = invalidate(entry)
    assert second > first


# --- release --------------------------------------------------------------------------------------


def test_the_owner_gives_the_lease_back_and_the_waiters_ask_again() -> None:
    entry, grant = granted()
    entry, _ = acquire(entry, ask("b"))
    after, released, messages = scripts.release(entry, "a", now_us=NOW)
    assert released
    assert (after.lease, after.waiters) == (None, frozenset())
    assert messages == (("inbox-b", Message("again", grant.token)),)


def test_nobody_else_gives_a_lease_back() -> None:
    entry, _ = granted()
    assert scripts.release(entry, "b", now_us=NOW) == (entry, False, ())
    assert scripts.release(EMPTY, "b", now_us=NOW) == (EMPTY, False, ())


# --- fallback -------------------------------------------------------------------------------------


def fallback(entry: Entry, flight: str, *, limit: int = 1, now_us: int = NOW) -> tuple[Entry, object]:
    return scripts.fallback(
        entry, FallbackAsk(flight, "epoch-of-fallback", limit, 2000, 60_000), now_us=now_us
    )


def test_a_fallback_gets_a_token_of_its_own_beside_the_lease() -> None:
    entry, grant = granted()
    after, answer = fallback(entry, "f")
    assert isinstance(answer, Granted)
    assert answer.token > grant.token
    assert answer.epoch == grant.epoch
    assert after.lease == entry.lease
    assert after.slots == (Slot("f", NOW + 2 * SECOND, total_ms=2_000),)


def test_the_value_of_a_fallback_ends_the_wait_and_frees_its_slot_and_the_holder_is_refused() -> None:
    entry, grant = granted()
    entry, _ = acquire(entry, ask("b"))
    entry, answer = fallback(entry, "f")
    assert isinstance(answer, Granted)
    after, was_stored, messages = scripts.publish(entry, publication(answer, "f"), now_us=NOW)
    assert was_stored
    assert after.slots == ()
    assert after.lease == entry.lease
    assert messages[0][1].kind == "value"
    after, was_stored, _ = scripts.publish(after, publication(grant), now_us=NOW)
    assert not was_stored
    assert after.lease is None


def test_fallbacks_are_bounded_over_all_processes_and_slots_end_by_themselves() -> None:
    entry, first = fallback(EMPTY, "f", limit=2)
    entry, second = fallback(entry, "g", limit=2)
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert second.token > first.token
    assert fallback(entry, "h", limit=2)[1] == Denied()
    assert isinstance(fallback(entry, "h", limit=2, now_us=NOW + 2 * SECOND)[1], Granted)


def test_the_same_flight_asking_again_does_not_take_a_second_slot() -> None:
    entry, _ = fallback(EMPTY, "f")
    entry, again = fallback(entry, "f")
    assert isinstance(again, Granted)
    assert len(entry.slots) == 1


def test_a_fallback_finds_a_value_that_came_meanwhile() -> None:
    entry, grant = granted()
    entry = stored(grant, entry)
    after, answer = fallback(entry, "f")
    assert isinstance(answer, Found)
    assert after == entry


def test_a_failed_fallback_keeps_its_slot() -> None:
    entry, answer = fallback(EMPTY, "f")
    assert isinstance(answer, Granted)
    after, _, _ = scripts.publish(entry, publication(answer, "f", outcome="failure", total_ms=0), now_us=NOW)
    assert len(after.slots) == 1


# --- what survives --------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["value", "failure"])
def test_a_publication_lets_the_record_live_longer_and_never_shorter(outcome: Outcome) -> None:
    entry, grant = granted()
    later = NOW + SECOND
    after, _, _ = scripts.publish(entry, publication(grant, outcome=outcome), now_us=later)
    assert after.record is not None
    assert after.record.expires_us == later + 60 * SECOND
    brief = replace(publication(grant, outcome=outcome), record_ms=1)
    after, _, _ = scripts.publish(after, brief, now_us=later)
    assert after.record is not None
    assert after.record.expires_us == later + 60 * SECOND


def test_every_new_number_is_above_a_value_that_the_record_does_not_know() -> None:
    record = Record("e", last=NOW + 1, fence=NOW + 1, expires_us=NOW + SECOND)
    value = Value(b"old", NOW + 50, 10_000, 10_000, NOW + 9 * SECOND)
    entry = Entry(value=value, record=record)
    _, answer = acquire(entry)
    assert isinstance(answer, Granted)
    assert answer.token == NOW + 51
    assert invalidate(entry)[1] == NOW + 51
    _, fallen = fallback(entry, "f")
    assert isinstance(fallen, Granted)
    assert fallen.token == NOW + 51
