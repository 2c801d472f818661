"""The tree of errors, and how the failure of one computation reaches everybody who waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import fastapi
import pytest

from stampede_guard import ComputeFailed, ComputeTimeout, StampedeGuard, errors, register_failure
from stampede_guard.errors import Misuse, Overloaded, PolicyError, StampedeError, StoreError, WaitTimeout
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.heap import collect

# --- the tree -------------------------------------------------------------------------------------------


def test_every_error_of_the_package_has_one_root() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), StampedeError)


def test_a_mistake_in_the_program_is_told_apart_from_a_store_that_failed() -> None:
    assert not issubclass(Misuse, StoreError)
    assert not issubclass(StoreError, Misuse)
    assert issubclass(PolicyError, ValueError)
    assert issubclass(errors.KeyPartError, TypeError)


def test_who_catches_time_outs_catches_ours() -> None:
    assert issubclass(WaitTimeout, TimeoutError)
    assert issubclass(ComputeTimeout, TimeoutError)
    assert issubclass(Overloaded, WaitTimeout)


def test_a_policy_error_names_the_field_the_value_and_the_rule() -> None:
    assert str(PolicyError("ttl", 0, "it must be more")) == "ttl=0 is not allowed: it must be more"


def test_a_failure_from_elsewhere_names_the_type_that_it_was() -> None:
    assert str(ComputeFailed("LookupError", "no such project")) == "LookupError: no such project"


# --- one failure for all --------------------------------------------------------------------------------


class Failing:
    """Counts its runs, and fails when its gate is opened."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.gate = Gate()

    async def __call__(self) -> Any:
        await self.gate.hold()
        raise self.error


async def together(here: StampedeGuard, there: StampedeGuard, failing: Failing, name: str) -> list[Any]:
    """What two callers here and two callers in another process get, when the computation here fails."""
    leader = asyncio.create_task(here.get_or_compute("k", failing))
    await failing.gate.arrival()
    callers = [leader]
    callers += [asyncio.create_task(guard.get_or_compute("k", failing)) for guard in (here, there, there)]
    await joined(here, name, 2)
    await joined(there, name, 2)
    await until(lambda: type(there.engine.runtime().flights[name].state.phase).__name__ == "Waiting")
    failing.gate.open()
    return await soon(asyncio.gather(*callers, return_exceptions=True))


async def test_passengers_get_copies_of_the_exception_and_other_processes_hear_of_it(guards: Guards) -> None:
    # Looks are an hour apart: only a wake-up can tell the others in time.
    patient = {"poll_interval": 3600.0, "lease_ttl": 3600.0, "takeover_gap": 1800.0}
    here, there = guards.guard(**patient), guards.guard(**patient)
    failing = Failing(LookupError("no such project"))
    outcomes = await together(here, there, failing, guards.name("k"))
    assert len({id(outcome) for outcome in [*outcomes, failing.error]}) == 5
    assert type(outcomes[0]) is type(outcomes[1]) is LookupError
    assert outcomes[0].args == outcomes[1].args == failing.error.args
    assert [repr(outcome) for outcome in outcomes[2:]] == ["LookupError('no such project')"] * 2
    assert failing.gate.entered == 1


async def test_for_error_ttl_nobody_tries_again_and_then_somebody_does(guards: Guards) -> None:
    failing = Failing(LookupError("no such project"))
    failing.gate.open()
    here, there = guards.guard(error_ttl=5), guards.guard(error_ttl=5)
    with pytest.raises(LookupError):
        await here.get_or_compute("k", failing)
    for guard in (here, there, guards.guard()):
        with pytest.raises(LookupError, match="no such project"):
            await guard.get_or_compute("k", failing)
    assert failing.gate.entered == 1
    await guards.age(guards.name("k"), 5)
    with pytest.raises(LookupError):
        await there.get_or_compute("k", failing)
    assert failing.gate.entered == 2


async def test_without_error_ttl_those_who_wait_share_it_and_the_next_caller_tries_again(
    guards: Guards,
) -> None:
    here, there = guards.guard(error_ttl=0), guards.guard(error_ttl=0)
    failing = Failing(LookupError("no such project"))
    outcomes = await together(here, there, failing, guards.name("k"))
    assert [type(outcome) for outcome in outcomes] == [LookupError] * 4
    assert failing.gate.entered == 1
    with pytest.raises(LookupError):
        await there.get_or_compute("k", failing)
    assert failing.gate.entered == 2


async def test_an_invalidation_forgets_a_failure(guards: Guards) -> None:
    failing = Failing(LookupError())
    failing.gate.open()
    guard = guards.guard(error_ttl=3600)
    with pytest.raises(LookupError):
        await guard.get_or_compute("k", failing)
    await guard.invalidate("k")
    with pytest.raises(LookupError):
        await guard.get_or_compute("k", failing)


async def test_a_failure_never_takes_the_place_of_a_value(guards: Guards) -> None:
    async def works() -> int:
        return 1

    async def fails() -> int:
        raise LookupError

    guard = guards.guard(ttl=60, stale_ttl=600, error_ttl=60)
    await guard.get_or_compute("k", works)
    await guards.age(guards.name("k"), 61)
    for _ in range(3):
        assert await guard.get_or_compute("k", fails) == 1
        await until(lambda: not guard.engine.runtime().flights)


async def test_an_http_exception_keeps_status_detail_and_headers_in_other_processes(guards: Guards) -> None:
    here, there = guards.guard(), guards.guard()
    error = fastapi.HTTPException(404, {"reason": "no such project"}, {"X-Project": "7"})
    outcomes = await together(here, there, Failing(error), guards.name("k"))
    assert [type(outcome) for outcome in outcomes] == [fastapi.HTTPException] * 4
    for outcome in outcomes:
        assert (outcome.status_code, outcome.detail) == (404, {"reason": "no such project"})
        assert outcome.headers == {"X-Project": "7"}


@pytest.mark.parametrize("status", [401, 403])
async def test_what_one_caller_may_not_see_never_leaves_the_process(guards: Guards, status: int) -> None:
    here, there = guards.guard(), guards.guard()
    refusing = Failing(fastapi.HTTPException(status))
    allowed = Gate()

    async def permitted() -> str:
        await allowed.hold()
        return "seen"

    leader = asyncio.create_task(here.get_or_compute("k", refusing))
    await refusing.gate.arrival()
    waiter = asyncio.create_task(there.get_or_compute("k", permitted))
    await joined(there, guards.name("k"), 1)
    await until(
        lambda: type(there.engine.runtime().flights[guards.name("k")].state.phase).__name__ == "Waiting"
    )
    refusing.gate.open()
    with pytest.raises(fastapi.HTTPException):
        await soon(leader)
    # The other process was not told of a failure but that it is its turn.
    await allowed.arrival()
    allowed.open()
    assert await soon(waiter) == "seen"
    assert (refusing.gate.entered, allowed.entered) == (1, 1)


class OutOfStock(Exception):
    def __init__(self, item: int) -> None:
        super().__init__(item)
        self.item = item


async def test_a_registered_type_reaches_other_processes_as_itself(guards: Guards) -> None:
    register_failure(
        OutOfStock, lambda error: {"item": error.item}, lambda content: OutOfStock(content["item"])
    )
    here, there = guards.guard(), guards.guard()
    outcomes = await together(here, there, Failing(OutOfStock(7)), guards.name("k"))
    assert [type(outcome) for outcome in outcomes] == [OutOfStock] * 4
    assert [outcome.item for outcome in outcomes] == [7] * 4


# --- deadlines ------------------------------------------------------------------------------------------


async def test_compute_timeout_cancels_frees_the_lease_and_fails_everybody_who_waits(guards: Guards) -> None:
    here, there = guards.guard(compute_timeout=0.1, error_ttl=0), guards.guard(error_ttl=0)
    gate, quick = Gate(), Gate()
    quick.open()

    async def hangs() -> str:
        await gate.hold()
        return "never"

    async def works() -> str:
        await quick.hold()
        return "value"

    callers = [asyncio.create_task(here.get_or_compute("k", hangs)) for _ in range(2)]
    await gate.arrival()
    outcomes = await soon(asyncio.gather(*callers, return_exceptions=True))
    assert [type(outcome) for outcome in outcomes] == [ComputeTimeout] * 2
    assert "no result within compute_timeout (0.1 s)" in str(outcomes[0])
    assert (gate.entered, gate.cancelled) == (1, 1)
    assert await guards.lease_holder(guards.name("k")) == ""
    assert await soon(there.get_or_compute("k", works)) == "value"


async def test_other_processes_hear_of_an_overrun_as_what_it_is(guards: Guards) -> None:
    here, there = guards.guard(compute_timeout=0.1, error_ttl=60), guards.guard()
    gate = Gate()

    async def hangs() -> None:
        await gate.hold()

    for guard in (here, there):
        with pytest.raises(ComputeTimeout):
            await soon(guard.get_or_compute("k", hangs))
    assert gate.entered == 1


async def test_a_computation_that_does_not_end_when_cancelled_is_left_alone_and_counted(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guards.guard(compute_timeout=0.05, error_ttl=0)
    ended = asyncio.Event()

    async def stubborn() -> None:
        while not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()

    with pytest.raises(ComputeTimeout):
        await soon(guard.get_or_compute("k", stubborn))
    assert guard.engine.runtime().abandoned == 1
    assert "does not end" in caplog.text
    ended.set()
    await until(lambda: guard.engine.runtime().abandoned == 0)


async def test_a_computation_cancelled_from_within_is_a_failure_and_no_cancellation(guards: Guards) -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ComputeFailed, match="cancelled from within"):
        await soon(guards.guard().get_or_compute("k", gives_up))


async def test_a_failure_that_nobody_waits_for_any_more_is_no_forgotten_exception(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard, failing = guards.guard(error_ttl=0), Failing(LookupError())
    callers = [asyncio.create_task(guard.get_or_compute("k", failing)) for _ in range(2)]
    await failing.gate.arrival()
    await joined(guard, guards.name("k"), 2)
    for caller in callers:
        caller.cancel()
    failing.gate.open()
    await asyncio.gather(*callers, return_exceptions=True)
    await until(lambda: not guard.engine.runtime().flights)
    collect()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_caller_cancelled_in_the_moment_of_failure_leaves_no_forgotten_exception(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard, failing = guards.guard(error_ttl=0), Failing(LookupError())
    caller = asyncio.create_task(guard.get_or_compute("k", failing))
    await failing.gate.arrival()
    (passenger,) = guard.engine.runtime().flights[guards.name("k")].passengers._aboard.values()
    passenger.future.add_done_callback(lambda _: caller.cancel())
    failing.gate.open()
    await asyncio.gather(caller, return_exceptions=True)
    assert passenger.future.done()
    del passenger
    collect()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
