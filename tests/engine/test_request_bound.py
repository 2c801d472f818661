"""`unkeyed=`: what belongs to a caller's request is used within that request only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.api.types import CachedFunction
from stampede_guard.errors import ComputeFailed, StoreRefused
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined

T = TypeVar("T")


class Session:
    """As a framework's `yield` dependency gives it: closed when its request is over."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = True

    def query(self) -> str:
        if not self.open:
            raise RuntimeError(f"session {self.name} is used after its request")
        return f"counted in {self.name}"


class Requests:
    """Each `request` is a task with a session of its own, around one call."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    def request(self, name: str, call: Any) -> asyncio.Task[Any]:
        async def handle() -> Any:
            session = self.sessions[name] = Session(name)
            try:
                return await call(session)
            finally:
                session.open = False

        return asyncio.create_task(handle(), name=f"request {name}")


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await soon(_result(task))


async def _result(task: asyncio.Task[T]) -> T:
    return await task


def quality(guard: StampedeGuard, gate: Gate, **options: Any) -> CachedFunction[..., str]:
    @guard.locked_cache(unkeyed=("db",), ttl=60, **options)
    async def quality(project: int, db: Session) -> str:
        await gate.hold()
        return db.query()

    return quality


async def test_the_session_is_no_part_of_the_key(guards: Guards) -> None:
    gate = Gate()
    gate.open()
    cached, requests = quality(guards.guard(), gate), Requests()
    assert await requests.request("one", lambda db: cached(7, db)) == "counted in one"
    assert await requests.request("two", lambda db: cached(7, db)) == "counted in one"
    assert cached.key(7, Session("x")) == cached.key(7, db=None)
    assert gate.entered == 1


async def test_a_caller_that_leaves_hands_over_to_the_next_with_the_next_ones_session(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()
    cached, requests = quality(guard, gate), Requests()
    leader = requests.request("one", lambda db: cached(7, db))
    await gate.arrival()
    passenger = requests.request("two", lambda db: cached(7, db))
    await joined(guard, cached.key(7, None), 2)

    await cancel(leader)
    await gate.arrival()
    gate.open()
    assert await soon(passenger) == "counted in two"
    assert (gate.entered, gate.cancelled) == (2, 1)


async def test_the_computation_has_ended_before_the_request_that_it_ran_in(guards: Guards) -> None:
    gate, requests = Gate(), Requests()
    seen = []
    guard = guards.guard()

    @guard.locked_cache(unkeyed=("db",), ttl=60)
    async def slow_to_end(project: int, db: Session) -> str:
        try:
            await gate.hold()
        finally:
            # A driver's rollback takes a moment.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append(db.query())
        return ""

    leader = requests.request("one", lambda db: slow_to_end(7, db))
    await gate.arrival()
    await cancel(leader)
    assert seen == ["counted in one"]
    await until(lambda: not guard.engine.runtime().flights)


async def test_an_error_of_a_computation_whose_caller_left_is_nobodys(guards: Guards) -> None:
    """Drivers turn a cancellation into errors of their own; the next passenger must not get them."""
    gate, requests = Gate(), Requests()
    guard = guards.guard()

    @guard.locked_cache(unkeyed=("db",), ttl=60)
    async def quality(project: int, db: Session) -> str:
        try:
            await gate.hold()
        except asyncio.CancelledError:
            raise ConnectionError("cancelled in the middle of a query") from None
        return db.query()

    leader = requests.request("one", lambda db: quality(7, db))
    await gate.arrival()
    passenger = requests.request("two", lambda db: quality(7, db))
    await joined(guard, quality.key(7, None), 2)  # type: ignore[arg-type]
    await cancel(leader)
    await gate.arrival()
    gate.open()
    assert await soon(passenger) == "counted in two"


async def test_it_is_handed_over_a_bounded_number_of_times(guards: Guards) -> None:
    gate, requests = Gate(), Requests()
    guard = guards.guard()
    cached = quality(guard, gate, max_handovers=2)
    callers = []
    for number in range(5):
        callers.append(requests.request(str(number), lambda db: cached(7, db)))
        await joined(guard, cached.key(7, None), number + 1)
    for leaving in callers[:3]:
        await gate.arrival()
        await cancel(leaving)
    for left in callers[3:]:
        with pytest.raises(ComputeFailed, match="3 callers left, one after the other"):
            await soon(left)
    assert gate.entered == 3


async def test_that_all_callers_of_one_process_left_is_no_failure_for_another(guards: Guards) -> None:
    gate, requests = Gate(), Requests()
    here, there = guards.guard(), guards.guard()
    cached, elsewhere = quality(here, gate, max_handovers=0), quality(there, gate)
    leader = requests.request("one", lambda db: cached(7, db))
    await gate.arrival()
    passenger = requests.request("two", lambda db: cached(7, db))
    await joined(here, cached.key(7, None), 2)
    waiter = requests.request("three", lambda db: elsewhere(7, db))
    await joined(there, cached.key(7, None), 1)
    await until(
        lambda: type(there.engine.runtime().flights[cached.key(7, None)].state.phase).__name__ == "Waiting"
    )
    await cancel(leader)
    with pytest.raises(ComputeFailed, match="1 callers left, one after the other"):
        await soon(passenger)
    await gate.arrival()
    gate.open()
    assert await soon(waiter) == "counted in three"


async def test_when_all_callers_have_left_the_lease_is_given_back(guards: Guards) -> None:
    gate, requests = Gate(), Requests()
    here, there = guards.guard(), guards.guard()
    cached, elsewhere = quality(here, gate), quality(there, gate)
    leader = requests.request("one", lambda db: cached(7, db))
    await gate.arrival()
    waiter = requests.request("two", lambda db: elsewhere(7, db))
    await joined(there, cached.key(7, None), 1)
    await cancel(leader)
    await gate.arrival()
    gate.open()
    assert await soon(waiter) == "counted in two"
    await until(lambda: not here.engine.runtime().flights)
    assert await guards.lease_holder(cached.key(7, None)) == ""


async def test_a_stale_value_is_refreshed_by_the_caller_that_finds_it_and_never_in_the_background(
    guards: Guards,
) -> None:
    gate, requests = Gate(), Requests()
    guard = guards.guard()
    cached = quality(guard, gate, stale_ttl=600)
    first = requests.request("one", lambda db: cached(7, db))
    await gate.arrival()
    gate.open()
    assert await soon(first) == "counted in one"

    await guards.age(cached.key(7, None), 61)
    assert await soon(requests.request("two", lambda db: cached(7, db))) == "counted in two"
    assert not guard.engine.runtime().flights
    assert gate.entered == 2


async def test_others_are_served_the_stale_value_while_one_refreshes_it_in_its_request(
    guards: Guards,
) -> None:
    first, gate, requests = Gate(), Gate(), Requests()
    first.open()
    here, there = guards.guard(), guards.guard()
    await requests.request("one", lambda db: quality(guards.guard(), first, stale_ttl=600)(7, db))
    cached, elsewhere = quality(here, gate, stale_ttl=600), quality(there, gate, stale_ttl=600)
    await guards.age(cached.key(7, None), 61)

    refreshing = requests.request("two", lambda db: cached(7, db))
    await gate.arrival()
    assert await soon(requests.request("three", lambda db: cached(7, db))) == "counted in one"
    assert await soon(requests.request("four", lambda db: elsewhere(7, db))) == "counted in one"
    gate.open()
    assert await soon(refreshing) == "counted in two"
    assert await soon(requests.request("five", lambda db: elsewhere(7, db))) == "counted in two"
    assert gate.entered == 1


async def test_a_stale_value_is_refreshed_in_its_callers_request_also_when_no_lease_can_be_had(
    guards: Guards,
) -> None:
    guard, requests, gate = guards.guard(), Requests(), Gate()
    gate.open()
    cached = quality(guard, gate, stale_ttl=600)
    await requests.request("one", lambda db: cached(7, db))
    await guards.age(cached.key(7, None), 61)

    async def refuse(*_: Any, **__: Any) -> Any:
        raise StoreRefused("no writes here")

    guard.engine.runtime().session.acquire = refuse  # type: ignore[method-assign]
    guard.engine.runtime().last.clear()
    assert await requests.request("two", lambda db: cached(7, db)) == "counted in two"


async def test_a_stale_value_is_served_when_the_callers_own_refresh_fails(guards: Guards) -> None:
    requests = Requests()
    fails = False

    @guards.guard().locked_cache(unkeyed=("db",), ttl=60, stale_ttl=600)
    async def quality(project: int, db: Session) -> str:
        if fails:
            raise ConnectionError("the database is gone")
        return db.query()

    await requests.request("one", lambda db: quality(7, db))
    fails = True
    await guards.age(quality.key(7, None), 61)  # type: ignore[arg-type]
    assert await soon(requests.request("two", lambda db: quality(7, db))) == "counted in one"


async def test_without_it_a_background_refresh_uses_the_session_after_its_request(guards: Guards) -> None:
    """The fault that all of this is about: a closure over the request's session that says nothing of it."""
    requests, errors = Requests(), []
    gate = Gate()
    guard = guards.guard()

    async def handle(db: Session, **options: Any) -> str:
        async def count() -> str:
            if db.name != "one":
                await gate.hold()
            try:
                return db.query()
            except RuntimeError as error:
                errors.append(str(error))
                raise

        return await guard.get_or_compute("quality:7", count, ttl=60, stale_ttl=600, **options)

    await requests.request("one", handle)
    await guards.age(guards.name("quality:7"), 61)
    assert await requests.request("two", handle) == "counted in one", "stale, at once"
    await gate.arrival()
    flight = guard.engine.runtime().flights[guards.name("quality:7")]
    gate.open()
    await soon(flight.landed)
    assert errors == ["session two is used after its request"]

    errors.clear()
    await guards.age(guards.name("quality:7"), 2)  # until its error is forgotten

    def bound(db: Session) -> Coroutine[Any, Any, str]:
        return handle(db, request_bound=True)

    assert await soon(requests.request("three", bound)) == "counted in three"
    assert errors == []


async def test_an_unannotated_argument_of_a_key_function_counts_as_the_requests(guards: Guards) -> None:
    gate, requests = Gate(), Requests()
    guard = guards.guard()

    @guard.locked_cache(key=lambda project, db: project, ttl=60)
    async def quality(project, db):  # type: ignore[no-untyped-def]
        await gate.hold()
        return db.query()

    leader = requests.request("one", lambda db: quality(7, db))
    await gate.arrival()
    passenger = requests.request("two", lambda db: quality(7, db))
    await joined(guard, quality.key(7, None), 2)
    await cancel(leader)
    await gate.arrival()
    gate.open()
    assert await soon(passenger) == "counted in two"
