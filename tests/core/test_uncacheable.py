"""A key that is not cacheable for now: nobody waits for anybody, and only so many compute at once."""

from __future__ import annotations

from dataclasses import replace

from stampede_guard.core import scripts
from stampede_guard.core.entry import EMPTY, Entry
from stampede_guard.core.scripts import FailedRecently, Found, Granted, Held, Uncacheable
from tests.core.given import NOW, SECOND, acquire, ask, granted, invalidate, publication, stored


def passed(entry: Entry = EMPTY, *, total_ms: int = 10_000) -> Entry:
    """After a computation whose value may not be stored."""
    entry, grant = granted("a", entry)
    after, accepted, _ = scripts.publish(
        entry, publication(grant, outcome="pass", body=b"", total_ms=total_ms), now_us=NOW
    )
    assert accepted
    return after


def let_through(entry: Entry, flight: str, *, limit: int = 2) -> tuple[Entry, Granted]:
    entry, answer = acquire(entry, replace(ask(flight), uncacheable_limit=limit, uncacheable_ms=60_000))
    assert isinstance(answer, Uncacheable)
    return entry, answer.grant


def test_what_may_not_be_stored_leaves_a_mark_and_wakes_all_who_wait() -> None:
    entry, grant = granted("a")
    entry, _ = acquire(entry, ask("b"))
    after, accepted, messages = scripts.publish(
        entry, publication(grant, outcome="pass", body=b""), now_us=NOW
    )
    assert accepted and after.value is None and after.lease is None
    assert [(inbox, message.kind) for inbox, message in messages] == [("inbox-b", "again")]
    assert isinstance(acquire(after, ask("b"))[1], Uncacheable)


def test_those_let_through_have_tokens_of_their_own_and_no_lease() -> None:
    entry, one = let_through(passed(), "b")
    entry, two = let_through(entry, "c")
    assert two.token > one.token and entry.lease is None
    assert not one.leased and not two.leased


def test_who_finds_every_slot_taken_waits_and_is_woken_by_the_first_that_is_given_back() -> None:
    entry, one = let_through(passed(), "b", limit=1)
    entry, answer = acquire(entry, ask("c"))
    assert isinstance(answer, Held) and not answer.suspect
    ended = replace(publication(one, "b", outcome="pass", body=b""), let_through=True)
    entry, _, messages = scripts.publish(entry, ended, now_us=NOW)
    assert [inbox for inbox, _ in messages] == ["inbox-c"]
    let_through(entry, "c", limit=1)


def test_a_slot_is_given_back_with_a_failure_a_refusal_and_a_release() -> None:
    entry, one = let_through(passed(), "b", limit=1)
    failed = replace(publication(one, "b", outcome="failure"), let_through=True)
    assert scripts.publish(entry, failed, now_us=NOW)[0].slots == ()
    fenced, _, _ = invalidate(entry)
    refused, accepted, _ = scripts.publish(fenced, replace(failed, outcome="value"), now_us=NOW)
    assert not accepted and refused.slots == ()
    waiting, _ = acquire(entry, ask("c"))
    after, released, messages = scripts.release(waiting, "b", now_us=NOW)
    assert released and after.slots == () and [inbox for inbox, _ in messages] == ["inbox-c"]


def test_the_slots_of_those_who_died_are_free_after_their_time() -> None:
    entry, _ = let_through(passed(total_ms=600_000), "b", limit=1)
    assert isinstance(acquire(entry, ask("c"))[1], Held)
    assert isinstance(acquire(entry, ask("c"), now_us=NOW + 61 * SECOND)[1], Uncacheable)


def test_asking_again_takes_no_second_slot() -> None:
    entry, _ = let_through(passed(), "b", limit=1)
    entry, _ = let_through(entry, "b", limit=1)
    assert len(entry.slots) == 1


def test_the_next_value_that_may_be_stored_ends_it() -> None:
    entry, grant = let_through(passed(), "b")
    after = stored(grant, entry, "b")
    assert after.failure is None
    assert isinstance(acquire(after, ask("c"))[1], Found)


def test_an_invalidation_ends_it_and_what_began_before_can_neither_be_stored_nor_mark_the_key() -> None:
    entry, grant = let_through(passed(), "b")
    entry, _, _ = invalidate(entry)
    assert isinstance(acquire(entry, ask("c"))[1], Granted)
    after, accepted, _ = scripts.publish(entry, publication(grant, "b", outcome="pass", body=b""), now_us=NOW)
    assert not accepted and after.failure is None


def test_its_time_ends_and_then_one_computes_for_all() -> None:
    entry = passed(total_ms=1_000)
    after, answer = acquire(entry, ask("b"), now_us=NOW + 2 * SECOND)
    assert isinstance(answer, Granted) and answer.leased
    assert isinstance(acquire(after, ask("c"), now_us=NOW + 2 * SECOND)[1], Held)


def test_without_a_lifetime_there_is_no_mark() -> None:
    assert passed(total_ms=0).failure is None


def test_a_failure_takes_the_place_of_the_mark() -> None:
    entry, grant = let_through(passed(), "b")
    entry, _, _ = scripts.publish(entry, publication(grant, "b", outcome="failure"), now_us=NOW)
    assert isinstance(acquire(entry, ask("c"))[1], FailedRecently)


def test_a_stale_value_stays_and_a_grant_names_the_value_that_it_replaces() -> None:
    entry, first = granted("a")
    assert first.replaces == 0
    entry = stored(first, entry)
    later = NOW + 7 * SECOND
    entry, answer = acquire(entry, ask("b"), now_us=later)
    assert isinstance(answer, Granted) and answer.replaces == first.token
    entry, _, _ = scripts.publish(entry, publication(answer, "b", outcome="pass", body=b""), now_us=later)
    assert scripts.read(entry, now_us=later) is not None
    _, through = acquire(entry, ask("c"), now_us=later)
    assert isinstance(through, Uncacheable) and through.grant.replaces == first.token
