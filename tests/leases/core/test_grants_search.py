"""The rules of a back end in every order: three who ask, and all that they and an operator may do, eight steps deep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stampede_guard.leases.core import grants
from stampede_guard.leases.core.grants import EMPTY, NOBODY, LeaseRow
from stampede_guard.leases.core.queue import Queue
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, LeaseRequest, Owner, Renewed

NAMES = "abc"
DEPTH = 8
TTL = 2.0
Step = tuple[str, str]
STEPS: tuple[Step, ...] = (
    *((what, who) for what in ("ask", "wait", "renew", "release", "rest", "leave") for who in NAMES),
    ("force", ""),
    ("at once", ""),
    ("time", ""),
)


def carried_out(row: LeaseRow, step: Step, now: float) -> tuple[LeaseRow, object]:
    what, who = step
    token = row.token if row.holder == who else 1
    match what:
        case "ask" | "wait":
            place = 3.0 if what == "wait" else 0.0
            question = LeaseRequest(
                name="n", holder=who, owner=Owner(process=who), lease_ttl=TTL, place=place, turn=1.0
            )
            return grants.ask(row, question, now)
        case "renew":
            return grants.renew(row, holder=who, token=token, lease_ttl=TTL, now=now)
        case "release" | "rest":
            rest = 1.5 if what == "rest" else 0.0
            return grants.release(row, holder=who, token=token, at_least_for=rest, now=now)
        case "leave":
            return grants.release(row, holder=who, token=0, at_least_for=0.0, now=now)
        case "force" | "at once":
            row, answer, _ = grants.force(
                row, name="n", token=row.token, by="eve", at_once=what == "at once", now=now
            )
            return row, answer
        case _:
            return row, None


def test_in_every_order_a_lease_has_one_holder_its_tokens_grow_and_nobody_overtakes() -> None:
    frontier: set[tuple[LeaseRow, float]] = {(EMPTY, 1.0)}
    seen: set[tuple[LeaseRow, float]] = set()
    for _ in range(DEPTH):
        following: set[tuple[LeaseRow, float]] = set()
        for row, now in frontier:
            for step in STEPS:
                then = now + 1.0 if step[0] == "time" else now
                new, answer = carried_out(row, step, then)
                check(row, step, then, new, answer)
                following.add((new, then))
        seen |= frontier
        frontier = following - seen
    assert len(seen) > 1_000


def check(before: LeaseRow, step: Step, now: float, after: LeaseRow, answer: object) -> None:
    what, who = step
    was, is_now = grants.settled(before, now), grants.settled(after, now)
    assert after.last >= before.last and after.token >= before.token
    taken = was.holder and (was.holder, was.token) != (is_now.holder, is_now.token)
    if taken:
        # By its own word, or by an operator who did not want to wait.
        assert (what in ("release", "rest", "leave") and who == was.holder) or what == "at once"
        assert not is_now.holder
    if is_now.holder and not was.holder:
        assert what in ("ask", "wait") and isinstance(answer, LeaseGranted) and is_now.holder == who
        assert is_now.token == is_now.last > was.last
        assert not was.rests_until
        waiting = [place.holder for place in was.queue]
        assert not waiting or waiting[0] == who
    if is_now.holder and is_now.holder == was.holder:
        assert is_now.deadline >= was.deadline
    if isinstance(answer, LeaseGranted) or answer == Renewed():
        assert is_now.holder == who and is_now.deadline >= now + TTL
    if isinstance(answer, LeaseHeld):
        assert is_now.holder != who or is_now.asked_to_leave
        assert answer.remaining >= 0
    first, then = [place.holder for place in was.queue], [place.holder for place in is_now.queue]
    assert [name for name in first if name in then] == [name for name in then if name in first]
    assert all(name in then for name in first if name != who), "only its own question moves a place"
    assert len(set(then)) == len(then)


def longest_wait(rule: Callable[[Queue, float], Queue]) -> float:
    """Seconds for which a free lease is out of reach because of waiters that died, while another asks each second."""
    dead = [
        LeaseRequest(name="n", holder=f"d{n}", owner=NOBODY, lease_ttl=TTL, place=300.0, turn=5.0)
        for n in range(3)
    ]
    alive = LeaseRequest(name="n", holder="x", owner=NOBODY, lease_ttl=TTL, place=300.0, turn=5.0)
    row, _ = grants.ask(EMPTY, LeaseRequest(name="n", holder="a", owner=NOBODY, lease_ttl=TTL), 1.0)
    for question in (*dead, alive):
        row, _ = grants.ask(row, question, 1.5)
    row, _ = grants.release(row, holder="a", token=row.token, at_least_for=0.0, now=2.0)
    now = 2.0
    while now < 400.0:
        row, answer = grants.ask(row, alive, now)
        if isinstance(answer, LeaseGranted):
            return now - 2.0
        row = replace(row, queue=rule(row.queue, now))
        now += 1.0
    return now


def test_waiters_that_died_cost_one_turn_and_not_one_each_nor_their_places() -> None:
    assert longest_wait(lambda queue, now: queue) == 5.0


def test_a_call_that_counted_anew_with_each_question_would_cost_more() -> None:
    def anew(queue: Queue, now: float) -> Queue:
        return tuple(replace(place, until=now + 5.0) if place.called else place for place in queue)

    def never(queue: Queue, now: float) -> Queue:
        return tuple(replace(place, until=301.5, called=False) for place in queue)

    assert longest_wait(anew) > 5.0 and longest_wait(never) > 5.0
