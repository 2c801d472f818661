"""One timer serves all passengers of a flight. Each of them still loses patience at its own time."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import Policy
from stampede_guard.engine.flights.passenger import OUT_OF_PATIENCE, Passenger
from stampede_guard.engine.flights.passengers import FEW_DEADLINES, Passengers
from stampede_guard.engine.plan import Plan
from stampede_guard.values.codec import codec_for
from tests.support.gate import soon

NEVER = 3600.0


async def _nothing() -> None: ...


def _passengers() -> Passengers:
    plan = Plan(title="f", policy=Policy(), codec=codec_for(Any))
    return Passengers(plan, asyncio.get_running_loop())


def _joined(passengers: Passengers, seconds: float, since: float | None = None) -> Passenger:
    """`since`: from when the seconds count, in loop time. Without it they count from now."""
    start = asyncio.get_running_loop().time() if since is None else since
    return passengers.join(_nothing, (), until=start + seconds, bound=False, stale=None)


async def test_passengers_lose_patience_in_the_order_of_their_times_and_those_that_left_do_not() -> None:
    passengers = _passengers()
    times = {"last": 0.03, "gone": 0.01, "never": NEVER, "first": 0.01, "second": 0.02}
    # One start for all. If each counted from its own, a pause between two of them would change their order.
    now = asyncio.get_running_loop().time()
    joined = {name: _joined(passengers, seconds, now) for name, seconds in times.items()}
    waiting = {name: passenger.future for name, passenger in joined.items()}
    order: list[str] = []
    for name, future in waiting.items():
        future.add_done_callback(lambda _, name=name: order.append(name))
    passengers.remove(joined["gone"])
    assert await soon(waiting["last"]) is OUT_OF_PATIENCE
    await asyncio.sleep(0)
    assert order == ["first", "second", "last"]
    assert not waiting["gone"].done()
    assert not waiting["never"].done()
    passengers.dismiss(None)


async def test_a_passenger_that_comes_later_and_waits_less_is_not_kept_waiting() -> None:
    passengers = _passengers()
    first = _joined(passengers, NEVER).future
    second = _joined(passengers, 0.0).future
    assert await soon(second) is OUT_OF_PATIENCE
    assert not first.done()
    passengers.dismiss(None)


async def test_an_outcome_ends_the_wait_and_the_flights_end_the_timer() -> None:
    passengers, loop = _passengers(), asyncio.get_running_loop()
    future = _joined(passengers, NEVER).future
    passengers.hand_out(codec_for(Any).encode(7), last=1)
    assert await soon(future) == 7
    assert any(not timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]
    passengers.dismiss(None)
    assert all(timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]


async def test_a_flood_of_callers_that_leave_leaves_no_trace() -> None:
    passengers = _passengers()
    stays = _joined(passengers, NEVER)
    for _ in range(10 * FEW_DEADLINES):
        passengers.remove(_joined(passengers, NEVER))
    assert len(passengers) == 1
    assert len(passengers._deadlines) <= FEW_DEADLINES + 2
    assert not stays.future.done()
    passengers.dismiss(None)
