"""The rules of a lease's back end, one by one; `test_grants_search` tries all orders of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stampede_guard.leases.core import grants
from stampede_guard.leases.core.grants import EMPTY, LeaseRow
from stampede_guard.leases.core.queue import MOST_WAITING, Place
from stampede_guard.leases.messages import (
    Forced,
    LeaseGranted,
    LeaseHeld,
    LeaseRefused,
    LeaseRequest,
    NotForced,
    Owner,
    Renewed,
)

NOW = 1_000.0


def question(holder: str, **changed: Any) -> LeaseRequest:
    given: dict[str, Any] = {"lease_ttl": 10.0, "place": 0.0} | changed
    return LeaseRequest(name="n", holder=holder, owner=Owner(process=f"p-{holder}", label=holder), **given)


def granted(
    row: LeaseRow = EMPTY, holder: str = "a", now: float = NOW, **changed: Any
) -> tuple[LeaseRow, int]:
    row, answer = grants.ask(row, question(holder, **changed), now)
    assert isinstance(answer, LeaseGranted)
    return row, answer.token


def test_a_free_lease_is_granted_and_a_held_one_is_not() -> None:
    row, token = granted()
    after, answer = grants.ask(row, question("b"), NOW + 1)
    assert answer == LeaseHeld(Owner(process="p-a", label="a"), token, 9.0)
    assert after == row


def test_asked_again_by_its_holder_it_is_the_same_token_and_counts_anew() -> None:
    row, token = granted()
    row, answer = grants.ask(row, question("a"), NOW + 4)
    assert answer == LeaseGranted(token)
    assert row.deadline == NOW + 14


def test_asked_again_for_less_it_is_not_shortened() -> None:
    row, _ = granted()
    row, _ = grants.ask(row, question("a", lease_ttl=1.0), NOW)
    assert row.deadline == NOW + 10
    row, _ = grants.renew(row, holder="a", token=row.token, lease_ttl=1.0, now=NOW + 1)
    assert row.deadline == NOW + 10


def test_tokens_grow_when_time_stands_still_and_when_it_is_set_back() -> None:
    row, first = granted()
    row, _ = grants.release(row, holder="a", token=first, at_least_for=0, now=NOW)
    row, second = granted(row, "b", NOW)
    row, _ = grants.release(row, holder="b", token=second, at_least_for=0, now=NOW - 500)
    _, third = granted(row, "c", NOW - 500)
    assert first < second < third


def test_tokens_grow_through_a_loss_of_all_data() -> None:
    _, before = granted()
    _, after = granted(EMPTY, "b", NOW + 1)
    assert before < after


def test_it_ends_at_its_deadline_and_not_before() -> None:
    row, token = granted()
    assert grants.check(row, holder="a", token=token, now=NOW + 9.9)
    assert not grants.check(row, holder="a", token=token, now=NOW + 10)
    assert isinstance(grants.ask(row, question("b"), NOW + 9.9)[1], LeaseHeld)
    assert isinstance(grants.ask(row, question("b"), NOW + 10)[1], LeaseGranted)


def test_renewing_never_creates() -> None:
    assert grants.renew(EMPTY, holder="a", token=1, lease_ttl=10, now=NOW) == (EMPTY, LeaseRefused("gone"))
    row, token = granted()
    assert grants.renew(row, holder="a", token=token, lease_ttl=10, now=NOW + 10)[1] == LeaseRefused("gone")


@pytest.mark.parametrize(("holder", "more"), [("a", 1), ("b", 0)])
def test_renewing_compares_holder_and_token(holder: str, more: int) -> None:
    row, token = granted()
    assert grants.renew(row, holder=holder, token=token + more, lease_ttl=10, now=NOW) == (
        row,
        LeaseRefused("taken"),
    )


@pytest.mark.parametrize(("holder", "more"), [("a", 1), ("b", 0), ("", 0)])
def test_releasing_compares_holder_and_token(holder: str, more: int) -> None:
    row, token = granted()
    after, held = grants.release(row, holder=holder, token=token + more, at_least_for=0, now=NOW)
    assert not held and after == row


def test_releasing_with_token_0_takes_whatever_the_holder_has() -> None:
    row, _ = granted()
    row, held = grants.release(row, holder="a", token=0, at_least_for=0, now=NOW)
    assert held and not row.holder
    row, _ = granted(row, "b")
    row, _ = grants.ask(row, question("a", place=5.0), NOW)
    row, held = grants.release(row, holder="a", token=0, at_least_for=0, now=NOW)
    assert not held and row.queue == () and row.holder == "b"


def test_a_released_lease_rests_until_its_grant_is_long_enough_ago() -> None:
    row, token = granted()
    row, _ = grants.release(row, holder="a", token=token, at_least_for=5, now=NOW + 2)
    assert grants.ask(row, question("b"), NOW + 2)[1] == LeaseHeld(row.owner, token, 3.0, resting=True)
    assert isinstance(grants.ask(row, question("b"), NOW + 5)[1], LeaseGranted)


def test_what_lasted_longer_than_at_least_for_does_not_rest() -> None:
    row, token = granted()
    row, _ = grants.release(row, holder="a", token=token, at_least_for=5, now=NOW + 5)
    assert isinstance(grants.ask(row, question("b"), NOW + 5)[1], LeaseGranted)


def test_who_waits_is_served_in_order_and_nobody_overtakes() -> None:
    row, token = granted()
    row, first = grants.ask(row, question("b", place=5.0), NOW)
    row, second = grants.ask(row, question("c", place=5.0), NOW)
    assert (first.ahead, second.ahead) == (0, 1)  # type: ignore[union-attr]
    row, _ = grants.release(row, holder="a", token=token, at_least_for=0, now=NOW)
    for holder, place in (("c", 5.0), ("d", 5.0), ("e", 0.0)):
        row, answer = grants.ask(row, question(holder, place=place), NOW)
        assert isinstance(answer, LeaseHeld) and answer.owner.label == "b"
    row, _ = granted(row, "b", place=5.0)
    assert [place.holder for place in row.queue] == ["c", "d"]


def test_a_place_lapses_when_it_is_not_asked_for_again() -> None:
    row, token = granted()
    row, _ = grants.ask(row, question("b", place=5.0), NOW)
    row, _ = grants.ask(row, question("c", place=5.0), NOW + 3)
    row, _ = grants.release(row, holder="a", token=token, at_least_for=0, now=NOW + 4)
    assert isinstance(grants.ask(row, question("c", place=5.0), NOW + 4)[1], LeaseHeld)
    assert isinstance(grants.ask(row, question("c", place=5.0), NOW + 5)[1], LeaseGranted)


@pytest.mark.parametrize("to", ["p-c", "c"])
def test_a_released_lease_can_be_handed_to_one_of_those_who_wait(to: str) -> None:
    row, token = granted()
    for holder in "bcd":
        row, _ = grants.ask(row, question(holder, place=5.0), NOW)
    row, _ = grants.release(row, holder="a", token=token, at_least_for=0, now=NOW, to=to)
    assert [place.holder for place in row.queue] == ["c", "b", "d"]


def test_to_nobody_in_particular_also_when_owners_have_no_labels() -> None:
    row, token = granted()
    unnamed = replace(question("b", place=5.0), owner=Owner(process="x"))
    row, _ = grants.ask(row, question("c", place=5.0), NOW)
    row, _ = grants.ask(row, unnamed, NOW)
    row, _ = grants.release(row, holder="a", token=token, at_least_for=0, now=NOW)
    assert [place.holder for place in row.queue] == ["c", "b"]


def test_asked_to_leave_a_holder_keeps_what_it_has_and_gets_no_more() -> None:
    row, token = granted()
    row, answer, audit = grants.force(row, name="n", token=token, by="eve", at_once=False, now=NOW + 1)
    assert answer == Forced(9.0)
    assert audit is not None and (audit.by, audit.now, audit.token) == ("eve", False, token)
    row, renewed = grants.renew(row, holder="a", token=token, lease_ttl=10, now=NOW + 2)
    assert renewed == Renewed("eve") and row.deadline == NOW + 10
    assert isinstance(grants.ask(row, question("b"), NOW + 9)[1], LeaseHeld)
    assert isinstance(grants.ask(row, question("b"), NOW + 10)[1], LeaseGranted)


def test_asked_to_leave_its_holder_is_not_told_granted_for_what_was_not_extended() -> None:
    row, token = granted()
    row, _, _ = grants.force(row, name="n", token=token, by="eve", at_once=False, now=NOW)
    after, answer = grants.ask(row, question("a"), NOW + 1)
    assert isinstance(answer, LeaseHeld) and after.deadline == NOW + 10


def test_forced_at_once_it_is_free() -> None:
    row, token = granted()
    row, answer, audit = grants.force(row, name="n", token=token, by="eve", at_once=True, now=NOW)
    assert answer == Forced(0.0) and audit is not None and audit.now
    assert grants.renew(row, holder="a", token=token, lease_ttl=10, now=NOW)[1] == LeaseRefused("gone")
    assert granted(row, "b")[1] > token


@pytest.mark.parametrize("at_once", [False, True])
def test_an_operator_who_saw_another_token_changes_nothing(at_once: bool) -> None:
    row, token = granted()
    after, answer, audit = grants.force(row, name="n", token=token - 1, by="eve", at_once=at_once, now=NOW)
    assert (after, answer, audit) == (row, NotForced(token), None)
    _, answer, _ = grants.force(row, name="n", token=token, by="eve", at_once=at_once, now=NOW + 10)
    assert answer == NotForced(0)


def test_a_clock_that_is_set_back_stretches_nothing() -> None:
    row, token = granted()
    row, _ = grants.ask(row, question("b", place=5.0), NOW)
    back = NOW - 3_600
    assert grants.view("n", row, back).remaining == 10
    assert isinstance(grants.ask(grants.settled(row, back), question("c"), back + 10)[1], LeaseGranted)
    row, _ = grants.release(row, holder="a", token=token, at_least_for=20, now=NOW)
    assert grants.view("n", row, back).remaining == 20


def test_a_view_tells_who_holds_and_who_waits() -> None:
    row, token = granted()
    row, _ = grants.ask(row, question("b", place=5.0), NOW + 1)
    seen = grants.view("n", row, NOW + 1)
    assert (seen.token, seen.held, seen.remaining, seen.granted_at) == (token, True, 9.0, NOW)
    assert seen.owner is not None and seen.owner.label == "a"
    assert [owner.label for owner in seen.waiting] == ["b"]
    ended = grants.view("n", row, NOW + 11)
    assert not ended.held and ended.token == token and ended.waiting == ()


def test_a_row_can_be_forgotten_when_nothing_of_it_counts_any_more() -> None:
    row, token = granted()
    assert not grants.idle(row, NOW + 1)
    row, _ = grants.release(row, holder="a", token=token, at_least_for=5, now=NOW)
    assert not grants.idle(row, NOW + 4) and grants.idle(row, NOW + 5)
    row, _ = grants.ask(row, question("b", place=9.0), NOW)
    assert not row.holder and not grants.idle(row, NOW + 8) and grants.idle(row, NOW + 9)


def test_a_queue_has_an_end_and_who_is_in_it_keeps_his_place_there() -> None:
    row, _ = granted()
    places = [Place(f"w{number}", Owner(process="w"), NOW + 5, 5.0) for number in range(MOST_WAITING - 1)]
    row, last = grants.ask(replace(row, queue=tuple(places)), question("last", place=5.0), NOW)
    assert isinstance(last, LeaseHeld) and last.ahead == MOST_WAITING - 1
    row, late = grants.ask(row, question("late", place=5.0), NOW)
    assert isinstance(late, LeaseHeld) and late.ahead == -1 and len(row.queue) == MOST_WAITING == 1_000
    row, again = grants.ask(row, question("w500", place=9.0), NOW)
    assert isinstance(again, LeaseHeld) and again.ahead == 500
    assert len(row.queue) == MOST_WAITING and row.queue[500].until == NOW + 9
