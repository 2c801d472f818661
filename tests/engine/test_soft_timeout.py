"""`soft_timeout`: a caller with a stale value prefers a fresh one, if it does not take too long."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.api.decorators.many import cached_many
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined

NEVER = 19.0
"""Longer than anything here takes. Below `compute_timeout`."""


class Source:
    """Its first value comes at once; each later one is held at the gate."""

    def __init__(self) -> None:
        self.runs = 0
        self.gate = Gate()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.runs += 1
        run = self.runs
        if run > 1:
            await self.gate.hold()
            if self.error is not None:
                raise self.error
        return run


def patient(guards: Guards, soft_timeout: float = NEVER, **fields: Any) -> StampedeGuard:
    return guards.guard(ttl=60, stale_ttl=6000, soft_timeout=soft_timeout, **fields)


async def stale(guards: Guards, guard: StampedeGuard, source: Source) -> None:
    assert await guard.get_or_compute("k", source) == 1
    await guards.age(guards.name("k"), 61)


async def landed(*fleet: StampedeGuard) -> None:
    await until(lambda: not any(guard.engine.runtime().flights for guard in fleet))


# --- in time --------------------------------------------------------------------------------------------


async def test_a_fresh_value_that_comes_in_time_is_served_to_all_that_wait_for_it(guards: Guards) -> None:
    source, fleet = Source(), [patient(guards) for _ in range(3)]
    await stale(guards, fleet[0], source)
    callers = [asyncio.create_task(guard.get_or_compute("k", source)) for guard in fleet for _ in range(5)]
    await source.gate.arrival()
    for guard in fleet:
        await joined(guard, guards.name("k"), 5)
    source.gate.open()
    assert await soon(asyncio.gather(*callers)) == [2] * 15
    assert source.runs == 2


# --- too late -------------------------------------------------------------------------------------------


async def test_when_the_computation_takes_longer_the_stale_value_is_served_and_the_computation_goes_on(
    guards: Guards,
) -> None:
    source, fleet = Source(), [patient(guards, 0.05) for _ in range(2)]
    await stale(guards, fleet[0], source)
    callers = [guard.get_or_compute("k", source) for guard in fleet for _ in range(5)]
    assert await soon(asyncio.gather(*callers)) == [1] * 10
    assert (source.gate.entered, source.gate.cancelled) == (1, 0)
    source.gate.open()
    await landed(*fleet)
    for guard in fleet:
        assert await guard.get_or_compute("k", source) == 2
    assert source.runs == 2


async def test_who_comes_when_it_has_taken_too_long_already_does_not_wait_at_all(guards: Guards) -> None:
    source, here, there = Source(), patient(guards, 0.05), patient(guards, 0.05)
    await stale(guards, here, source)
    assert await soon(asyncio.gather(*(one.get_or_compute("k", source) for one in (here, there)))) == [1, 1]
    for guard in (here, there):
        flight = guard.engine.runtime().flights[guards.name("k")]
        before = flight.joined
        # A wait of one turn of the loop would be long enough to join.
        assert [await soon(guard.get_or_compute("k", source)) for _ in range(5)] == [1] * 5
        assert flight.joined == before
    source.gate.open()


async def test_a_process_that_waits_for_a_slow_holder_goes_on_waiting_and_asks_as_rarely_as_ever(
    guards: Guards,
) -> None:
    source, holder = Source(), patient(guards, 0.05)
    other = patient(guards, 0.05, poll_interval=0.05, takeover_gap=0.04)
    await stale(guards, holder, source)
    assert await soon(holder.get_or_compute("k", source)) == 1
    assert await soon(other.get_or_compute("k", source)) == 1
    flight = other.engine.runtime().flights[guards.name("k")]
    polls, ask = 0, flight._ask

    async def counted() -> Any:
        nonlocal polls
        polls += 1
        return await ask()

    flight._ask = counted  # type: ignore[method-assign]
    await until(lambda: polls >= 3)
    assert other.engine.runtime().flights[guards.name("k")] is flight
    source.gate.open()
    await landed(holder, other)
    assert await other.get_or_compute("k", source) == 2


async def test_compute_timeout_stays_the_end_of_the_computation(guards: Guards) -> None:
    source, guard = Source(), patient(guards, 0.05, compute_timeout=0.2)
    await stale(guards, guard, source)
    assert await soon(guard.get_or_compute("k", source)) == 1
    await until(lambda: source.gate.cancelled == 1)
    await landed(guard)
    assert await soon(guard.get_or_compute("k", source)) == 1


async def test_a_caller_that_has_no_stale_value_waits_as_ever(guards: Guards) -> None:
    source, guard = Source(), patient(guards, 0.05)
    source.runs = 1
    callers = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(3)]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 3)
    await asyncio.sleep(0.1)
    assert not any(caller.done() for caller in callers)
    source.gate.open()
    assert await soon(asyncio.gather(*callers)) == [2] * 3


# --- failures and bounds --------------------------------------------------------------------------------


async def test_a_failure_gives_all_that_wait_the_stale_value(guards: Guards) -> None:
    source, fleet = Source(), [patient(guards) for _ in range(2)]
    source.error = RuntimeError("the source is down")
    await stale(guards, fleet[0], source)
    callers = [asyncio.create_task(guard.get_or_compute("k", source)) for guard in fleet for _ in range(5)]
    await source.gate.arrival()
    for guard in fleet:
        await joined(guard, guards.name("k"), 5)
    source.gate.open()
    assert await soon(asyncio.gather(*callers)) == [1] * 10


async def test_no_more_callers_wait_than_may_and_the_others_get_the_stale_value(guards: Guards) -> None:
    source, guard = Source(), patient(guards, max_passengers=2)
    await stale(guards, guard, source)
    waiting = [asyncio.create_task(guard.get_or_compute("k", source)) for _ in range(2)]
    await source.gate.arrival()
    await joined(guard, guards.name("k"), 2)
    assert await soon(guard.get_or_compute("k", source)) == 1
    source.gate.open()
    assert await soon(asyncio.gather(*waiting)) == [2, 2]


# --- computations bound to a request --------------------------------------------------------------------


async def test_a_computation_in_its_callers_request_is_waited_for_by_that_caller_alone(
    guards: Guards,
) -> None:
    source, here, there = Source(), patient(guards, 0.05), patient(guards, 0.05)
    await stale(guards, here, source)
    computing = asyncio.create_task(here.get_or_compute("k", source, request_bound=True))
    await source.gate.arrival()
    others = [guard.get_or_compute("k", source, request_bound=True) for guard in (here, there)]
    assert await soon(asyncio.gather(*others)) == [1, 1]
    assert not computing.done() and source.gate.cancelled == 0
    source.gate.open()
    assert await soon(computing) == 2
    assert source.runs == 2


# --- every face -----------------------------------------------------------------------------------------


async def test_plain_functions_and_ids_have_it_too(guards: Guards) -> None:
    guard, source, runs = patient(guards, 0.05), Source(), []

    @guard.locked_cache()
    def plain() -> int:
        runs.append(1)
        return asyncio.run_coroutine_threadsafe(source(), loop).result()

    @cached_many(guard=guard)
    async def many(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, await source())

    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(plain) == 1
    source.runs = 0
    assert await many([7, 8]) == {7: 1, 8: 1}
    names = [plain.key(), *many.keys([7, 8]).values()]
    for name in names if guards.memory is None else names[:1]:
        await guards.age(name, 61)
    assert await soon(asyncio.to_thread(plain)) == 1
    assert await soon(many([7, 8])) == {7: 1, 8: 1}
    assert source.gate.entered == 2, "both compute in the background"
    source.gate.open()
    await landed(guard)
    assert set((await many([7, 8])).values()) == {3}
    await until(lambda: len(runs) == 2)
