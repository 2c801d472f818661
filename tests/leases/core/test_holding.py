"""What a holder believes and does next, move by move, and then in every order of moves."""

from __future__ import annotations

import pytest

from stampede_guard.leases.core import holding
from stampede_guard.leases.core.holding import (
    Acquiring,
    AskFor,
    AwaitingLease,
    BackendAnswered,
    Ended,
    Event,
    Freed,
    GiveUp,
    Holding,
    Idle,
    Looked,
    Lose,
    Lost,
    NoAnswer,
    Nothing,
    Released,
    ReleaseLease,
    Releasing,
    Renew,
    Returned,
    Sleep,
    State,
    Stop,
    Stopping,
    Want,
    deadline_of,
)
from stampede_guard.leases.core.holding import decide as decide_with
from stampede_guard.leases.core.timing import Timing
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, LeaseRefused, Owner, Renewed, Withheld

TIMING = Timing(lease_ttl=60, renew_every=20, request_timeout=3, grace=5)
SOMEBODY = Owner(process="p")
HELD = LeaseHeld(SOMEBODY, 1, 30.0, 0)


def decide(state: State, event: Event) -> tuple[State, holding.Command]:
    return decide_with(state, event, TIMING)


def holds(sent_at: float = 100.0) -> Holding:
    return Holding(7, TIMING.deadline(sent_at), sent_at + 20)


def test_it_asks_once_without_patience_and_queues_with_it() -> None:
    assert decide(Idle(), Want(100, 0))[1] == AskFor(0.0)
    assert decide(Idle(), Want(100, 9))[1] == AskFor(TIMING.place)


def test_belief_counts_from_before_the_question_left() -> None:
    state, _ = decide(Idle(), Want(100, 0))
    state, command = decide(state, BackendAnswered(LeaseGranted(7), 102.5))
    assert deadline_of(state) == pytest.approx(100 + 60 * 0.99 - 0.25)
    assert command == Sleep(120)


def test_a_grant_that_comes_too_late_is_asked_for_again() -> None:
    state, _ = decide(Idle(), Want(100, 500))
    state, command = decide(state, BackendAnswered(LeaseGranted(7), 158))
    assert isinstance(state, Acquiring) and state.sent_at == 158 and isinstance(command, AskFor)
    state, _ = decide(state, BackendAnswered(LeaseGranted(7), 158.1))
    assert deadline_of(state) == TIMING.deadline(158)


def test_a_grant_that_comes_too_late_is_given_up_when_the_patience_is_over() -> None:
    state, _ = decide(Idle(), Want(100, 10))
    state, command = decide(state, BackendAnswered(LeaseGranted(7), 158))
    assert isinstance(state, Lost) and command == GiveUp()


@pytest.mark.parametrize("answer", [HELD, Withheld("it has only just restarted", 20)])
def test_an_answer_that_is_no_lease_is_waited_for_and_in_the_end_given_up(
    answer: LeaseHeld | Withheld,
) -> None:
    state, _ = decide(Idle(), Want(100, 10))
    state, command = decide(state, BackendAnswered(answer, 100.1))
    assert isinstance(state, AwaitingLease) and command == Sleep(state.ask_at)
    state, command = decide(state, Looked(state.ask_at))
    assert isinstance(command, AskFor)
    state, command = decide(state, BackendAnswered(answer, 110))
    assert isinstance(state, Lost) and command == GiveUp()


def test_the_last_question_is_asked_when_the_patience_ends() -> None:
    state, _ = decide(Idle(), Want(100, 0.5))
    state, _ = decide(state, BackendAnswered(HELD, 100.1))
    assert isinstance(state, AwaitingLease) and state.ask_at == 100.5


def test_without_an_answer_it_asks_again() -> None:
    state, _ = decide(Idle(), Want(100, 10))
    state, command = decide(state, NoAnswer(103))
    assert isinstance(state, AwaitingLease) and isinstance(command, Sleep)


def test_a_hint_brings_the_next_question_forward() -> None:
    state, _ = decide(Idle(), Want(100, 100))
    state, _ = decide(state, BackendAnswered(HELD, 100.1))
    state, command = decide(state, Freed(100.2))
    assert command == Sleep(100.2)


def test_a_hint_that_comes_before_the_answer_is_not_forgotten() -> None:
    state, _ = decide(Idle(), Want(100, 100))
    state, _ = decide(state, Freed(100.05))
    state, command = decide(state, BackendAnswered(HELD, 100.1))
    assert command == Sleep(100.1)


def test_it_renews_in_time_and_belief_counts_from_then() -> None:
    state, command = decide(holds(100), Looked(120.4))
    assert command == Renew()
    state, command = decide(state, BackendAnswered(Renewed(), 122))
    assert deadline_of(state) == TIMING.deadline(120.4)
    assert command == Sleep(140.4)


def test_while_a_renewal_is_under_way_it_waits_for_the_time_to_stop() -> None:
    state, _ = decide(holds(100), Looked(120))
    state, command = decide(state, Looked(121))
    assert command == Sleep(deadline_of(state) - 5)


def test_a_failed_renewal_moves_nothing_and_is_tried_again() -> None:
    state, _ = decide(holds(100), Looked(120))
    state, command = decide(state, NoAnswer(123))
    assert deadline_of(state) == TIMING.deadline(100)
    assert command == Sleep(124)


def test_the_body_is_told_before_belief_ends_and_again_when_it_does() -> None:
    end = TIMING.deadline(100)
    state, command = decide(holds(100), Looked(end - 5))
    assert isinstance(state, Stopping) and isinstance(command, Stop)
    state, command = decide(state, Looked(end))
    assert isinstance(state, Lost) and isinstance(command, Lose)


def test_it_renews_while_the_body_cleans_up_but_does_not_begin_anew() -> None:
    end = TIMING.deadline(100)
    state, _ = decide(holds(100), Looked(end - 5))
    state, command = decide(state, Looked(end - 5))
    assert command == Renew()
    state, _ = decide(state, BackendAnswered(Renewed(), end - 4))
    assert isinstance(state, Stopping) and deadline_of(state) == TIMING.deadline(end - 5)


def test_asked_to_leave_it_tells_the_body_and_renews_no_more() -> None:
    state, _ = decide(holds(100), Looked(120))
    state, command = decide(state, BackendAnswered(Renewed("eve"), 120.1))
    assert isinstance(state, Stopping) and command == Stop("eve asked for its release")
    assert deadline_of(state) == TIMING.deadline(100)
    state, command = decide(state, Looked(130))
    assert command == Sleep(deadline_of(state))


def test_a_hint_has_the_holder_ask_at_once() -> None:
    state, command = decide(holds(100), Freed(105))
    assert command == Renew()
    state, command = decide(state, BackendAnswered(Renewed("eve"), 105.1))
    assert isinstance(state, Stopping) and command == Stop("eve asked for its release")


def test_hints_do_not_have_the_holder_ask_all_the_time() -> None:
    state, command = decide(holds(100), Freed(100.2))
    assert command == Sleep(101)
    state, command = decide(state, Freed(100.3))
    assert command == Sleep(101)
    state, command = decide(state, Looked(101))
    assert command == Renew()
    state, command = decide(state, BackendAnswered(Renewed(), 101.1))
    assert command == Sleep(121)


@pytest.mark.parametrize("answer", [None, Renewed("eve")])
def test_hints_do_not_have_the_holder_ask_all_the_time_either_when_nothing_is_extended(
    answer: Renewed | None,
) -> None:
    state, asked = holds(100), []
    for tenth in range(1, 201):
        now = 110 + tenth / 10
        state, command = decide(state, Freed(now))
        if isinstance(command, Renew):
            asked.append(now)
            state, command = decide(state, NoAnswer(now) if answer is None else BackendAnswered(answer, now))
        state, command = decide(state, Looked(now))
        if isinstance(command, Renew):
            asked.append(now)
            state, _ = decide(state, NoAnswer(now) if answer is None else BackendAnswered(answer, now))
    assert 10 < len(asked) <= 21, asked


def test_a_hint_that_comes_while_a_renewal_is_under_way_has_it_asked_again() -> None:
    state, _ = decide(holds(100), Looked(120))
    state, command = decide(state, Freed(120.1))
    assert command == Nothing()
    for answer in (BackendAnswered(Renewed(), 120.2), NoAnswer(120.2)):
        again, command = decide(state, answer)
        assert isinstance(command, Sleep) and 121 <= command.until <= 121.2
        again, command = decide(again, Looked(command.until))
        assert command == Renew()
        _, command = decide(again, BackendAnswered(Renewed(), 121.5))
        assert isinstance(command, Sleep) and command.until > 140


def test_who_is_already_leaving_learns_that_he_is_not_waited_for() -> None:
    state, _ = decide(holds(100), Looked(120))
    state, _ = decide(state, Freed(120.05))
    state, _ = decide(state, BackendAnswered(Renewed("eve"), 120.1))
    state, command = decide(state, Looked(120.1))
    assert command == Sleep(121.1)
    state, _ = decide(state, Looked(121.1))
    state, command = decide(state, NoAnswer(121.2))
    assert command == Sleep(122.2)
    state, _ = decide(state, Looked(122.2))
    state, command = decide(state, BackendAnswered(Renewed("eve"), 122.3))
    assert command == Sleep(deadline_of(state))
    state, command = decide(state, Freed(130))
    assert command == Renew()
    state, command = decide(state, BackendAnswered(LeaseRefused("gone"), 130.1))
    assert isinstance(state, Lost) and isinstance(command, Lose)


@pytest.mark.parametrize("why", ["gone", "taken"])
def test_refused_it_is_lost_at_once(why: str) -> None:
    state, _ = decide(holds(100), Looked(120))
    state, command = decide(state, BackendAnswered(LeaseRefused(why), 120.1))  # type: ignore[arg-type]
    assert isinstance(state, Lost) and isinstance(command, Lose)


def test_an_answer_after_the_end_of_belief_is_not_believed() -> None:
    state, _ = decide(holds(100), Looked(120))
    state, command = decide(state, BackendAnswered(Renewed(), TIMING.deadline(100)))
    assert isinstance(state, Lost) and isinstance(command, Lose)


def test_from_the_release_on_nothing_is_believed() -> None:
    state, command = decide(holds(100), Ended(110))
    assert isinstance(state, Releasing) and command == ReleaseLease()
    assert deadline_of(state) == -holding.NEVER


@pytest.mark.parametrize(
    ("held", "now", "lost"),
    [(True, 110, False), (None, 110, False), (False, 110, True), (None, 200, True), (True, 200, False)],
)
def test_how_it_ended_is_what_the_store_said_or_what_was_believed(
    held: bool | None, now: float, lost: bool
) -> None:
    state, _ = decide(holds(100), Ended(109))
    state, command = decide(state, Returned(held, now))
    assert isinstance(state, Lost if lost else Released) and command == Nothing()


MOVES: tuple[tuple[str, float], ...] = tuple(
    (what, step)
    for what in (
        "look",
        "granted",
        "held",
        "renewed",
        "leave",
        "refused",
        "failed",
        "freed",
        "ended",
        "returned",
    )
    for step in (0.0, 4.0, 19.0, 55.0)
)


def event_of(what: str, now: float) -> Event:
    match what:
        case "look":
            return Looked(now)
        case "granted":
            return BackendAnswered(LeaseGranted(7), now)
        case "held":
            return BackendAnswered(HELD, now)
        case "renewed":
            return BackendAnswered(Renewed(), now)
        case "leave":
            return BackendAnswered(Renewed("eve"), now)
        case "refused":
            return BackendAnswered(LeaseRefused(), now)
        case "failed":
            return NoAnswer(now)
        case "freed":
            return Freed(now)
        case "ended":
            return Ended(now)
        case _:
            return Returned(True, now)


def sent_at(state: State) -> float | None:
    return state.sent_at if isinstance(state, Acquiring | Holding | Stopping) else None


def test_in_every_order_of_moves_only_an_answer_moves_belief_and_only_as_far_as_its_question() -> None:
    """Four moves deep, with pauses from none to almost a lease; what differs in time alone is one state."""
    frontier = {(decide(Idle(), Want(0.0, 100.0))[0], 0.0)}
    seen = 0
    for _ in range(4):
        following: set[tuple[State, float]] = set()
        for state, now in frontier:
            for what, step in MOVES:
                then = now + step
                new, command = decide(state, event_of(what, then))
                seen += 1
                check(state, what, then, new, command)
                following.add((new, then))
        frontier = following
    assert seen > 10_000


def check(before: State, what: str, now: float, after: State, command: holding.Command) -> None:
    if isinstance(before, Lost | Released):
        assert after == before and command == Nothing()
    believed, believes = deadline_of(before), deadline_of(after)
    if believes > believed:
        question = sent_at(before)
        assert what in ("granted", "renewed") and question is not None
        assert believes == TIMING.deadline(question)
    if isinstance(before, Holding | Stopping) and now >= believed:
        # What is no look at the clock may leave it as it is; belief is asked of the clock all the same.
        assert isinstance(after, Lost | Releasing) or what in (
            "held",
            "freed",
            "returned",
            "granted",
            "renewed",
        )
    if isinstance(after, Holding) and what in ("look", "failed"):
        assert now < believes - TIMING.grace
    if isinstance(before, Stopping):
        assert not isinstance(after, Holding)
    if isinstance(command, Sleep):
        assert command.until > now or isinstance(after, AwaitingLease)
    if isinstance(command, Renew):
        assert isinstance(after, Holding | Stopping) and after.sent_at == now
