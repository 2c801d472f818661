"""The real code with one fault put back in; the simulation must catch each.

What was tried in production, and what lease code gets wrong, as small changes to the rules and to what a holder
believes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from stampede_guard.leases.core import grants, holding, queue
from stampede_guard.leases.core.grants import LeaseRow
from stampede_guard.leases.core.holding import (
    Acquiring,
    BackendAnswered,
    Event,
    Holding,
    NoAnswer,
    Releasing,
    State,
    Stop,
    Stopping,
)
from stampede_guard.leases.core.timing import Timing
from stampede_guard.leases.keeping.keeper import Keeper
from stampede_guard.leases.messages import LeaseGranted, LeaseRefused, LeaseRequest, Renewed
from tests.leases.simulation.nodes import Node
from tests.leases.simulation.store import SimulatedBackend, Store

__all__ = ["MUTANTS", "mutated"]

Patch = tuple[Any, str, Any]
_decide = holding.decide
_release, _renew, _ask = grants.release, grants.renew, grants.ask


def _from_the_reply(state: State, event: Event, timing: Timing) -> Any:
    new, command = _decide(state, event, timing)
    if isinstance(event, BackendAnswered) and isinstance(new, Holding | Stopping):
        if isinstance(event.answer, LeaseGranted | Renewed):
            new = replace(new, deadline=timing.deadline(event.now))
    return new, command


def _errors_extend(state: State, event: Event, timing: Timing) -> Any:
    if isinstance(event, NoAnswer) and isinstance(state, Holding):
        state = replace(state, deadline=timing.deadline(event.now))
    return _decide(state, event, timing)


def _leaving_extends(state: State, event: Event, timing: Timing) -> Any:
    if isinstance(event, BackendAnswered) and isinstance(event.answer, Renewed):
        event = replace(event, answer=Renewed())
    return _decide(state, event, timing)


def _body_is_not_told(state: State, event: Event, timing: Timing) -> Any:
    new, command = _decide(state, event, timing)
    return new, holding.Nothing() if isinstance(command, Stop | holding.Lose) else command


def _refusals_are_ignored(state: State, event: Event, timing: Timing) -> Any:
    if isinstance(event, BackendAnswered) and isinstance(event.answer, LeaseRefused):
        event = BackendAnswered(Renewed(), event.now)
    return _decide(state, event, timing)


def _late_grants_are_taken(state: State, event: Event, timing: Timing) -> Any:
    if (
        isinstance(state, Acquiring)
        and isinstance(event, BackendAnswered)
        and isinstance(event.answer, LeaseGranted)
    ):
        state = replace(state, sent_at=event.now)
    return _decide(state, event, timing)


def _renew_creates(row: LeaseRow, *, holder: str, token: int, lease_ttl: float, now: float) -> Any:
    row = grants.settled(row, now)
    if not row.holder:
        row = replace(row, holder=holder, token=token, deadline=now + lease_ttl, lease_ttl=lease_ttl)
        return row, Renewed()
    return _renew(row, holder=holder, token=token, lease_ttl=lease_ttl, now=now)


def _release_compares_nothing(row: LeaseRow, *, holder: str, now: float, **given: Any) -> Any:
    current = grants.settled(row, now).holder
    row = replace(row, queue=queue.without(row.queue, holder))
    return _release(row, holder=current or holder, now=now, **(given | {"token": 0}))


def _answers_without_extending(row: LeaseRow, question: LeaseRequest, now: float) -> Any:
    new, answer = _ask(row, question, now)
    if row.holder == question.holder and new.token == row.token and now < row.deadline:
        new = replace(new, deadline=row.deadline)
    return new, answer


def _a_queue_for_ever(places: queue.Queue, now: float) -> queue.Queue:
    return places


def _grants_at_once(store: Store, *, with_data: bool) -> None:
    store.up = True
    if not with_data:
        store.rows.clear()


async def _no_release(self: Any, *args: Any, **kwargs: Any) -> bool:
    return True


def _by_a_flag(state: State) -> float:
    """`self._is_leader = True`, until somebody sets it to False."""
    return float("inf") if isinstance(state, Holding | Stopping | Releasing) else -float("inf")


async def _never_renews(self: Keeper) -> None:
    """An advisory lock on a connection of which the server's side is gone: nobody asks, everybody believes."""
    self._feed(BackendAnswered(Renewed(), self.part.world.now()))


def _wall(self: Node) -> float:
    return self._offset + self.rate * self.loop.time() + self.wall_step


def _grant_over_a_live_one(row: LeaseRow, question: LeaseRequest, now: float) -> Any:
    """`UPDATE ... WHERE heartbeat < now() - 75 s` with a heartbeat that says less than the leader believes."""
    return _ask(replace(row, deadline=row.deadline - 0.3 * row.lease_ttl), question, now)


def _clock_alone(last: int, now: float) -> int:
    return int(now * 1_000_000)


def _last_alone(last: int, now: float) -> int:
    return last + 1


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "belief counts from the reply": lambda: [(holding, "decide", _from_the_reply)],
    "a grant counts from the reply": lambda: [(holding, "decide", _late_grants_are_taken)],
    "errors extend belief": lambda: [(holding, "decide", _errors_extend)],
    "belief is a flag": lambda: [(holding, "deadline_of", _by_a_flag)],
    "belief without asking": lambda: [(Keeper, "_renew", _never_renews)],
    "a refusal is ignored": lambda: [(holding, "decide", _refusals_are_ignored)],
    "asked to leave extends belief": lambda: [(holding, "decide", _leaving_extends)],
    "no rho and no margin": lambda: [(Timing, "trusted", property(lambda self: self.lease_ttl))],
    "the wall clock": lambda: [(Node, "now", _wall)],
    "the body is not told": lambda: [(holding, "decide", _body_is_not_told)],
    "renew creates": lambda: [(grants, "renew", _renew_creates)],
    "release compares nothing": lambda: [(grants, "release", _release_compares_nothing)],
    "asked again it is not extended": lambda: [(grants, "ask", _answers_without_extending)],
    "the store ends leases early": lambda: [(grants, "ask", _grant_over_a_live_one)],
    "tokens from the clock alone": lambda: [(grants, "next_token", _clock_alone)],
    "tokens from the row alone": lambda: [(grants, "next_token", _last_alone)],
    "places never lapse": lambda: [(grants, "live", _a_queue_for_ever)],
    "a store without its data grants at once": lambda: [(Store, "restart", _grants_at_once)],
    "a given up attempt is not taken back": lambda: [(SimulatedBackend, "leave", _no_release)],
    "nothing is given back": lambda: [(SimulatedBackend, "release", _no_release)],
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for owner, attribute, replacement in MUTANTS[name]():
            stack.enter_context(mock.patch.object(owner, attribute, replacement))
        yield
