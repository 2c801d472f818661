"""While the source fails: stale values for everybody, and the source is asked once per `error_ttl`, fleet-wide."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from tests.engine.test_early import count_asks
from tests.support.gate import soon, until
from tests.support.guards import Guards

PROCESSES = 4
CALLERS = 10
ERROR_TTL = 5.0


class HTTPException(Exception):
    """As a web framework's: what it says is about one caller."""

    status_code = 403


class Source:
    """Works once, then fails until `error` is taken away."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    async def __call__(self) -> str:
        self.asked += 1
        asked = self.asked
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return f"value {asked}"


def fleet_of(guards: Guards, **fields: Any) -> list[StampedeGuard]:
    fields = {"ttl": 60, "stale_ttl": 100_000, "error_ttl": ERROR_TTL} | fields
    return [guards.guard(**fields) for _ in range(PROCESSES)]


async def hammer(fleet: list[StampedeGuard], source: Source, **options: Any) -> set[str]:
    """What many callers of all processes get, in several waves; errors are raised."""
    got: set[str] = set()
    for _ in range(3):
        calls = [guard.get_or_compute("k", source, **options) for guard in fleet for _ in range(CALLERS)]
        got |= set(await soon(asyncio.gather(*calls)))
        await until(lambda: not any(guard.engine.runtime().flights for guard in fleet))
    return got


async def broken(guards: Guards, fleet: list[StampedeGuard], error: Exception, **options: Any) -> Source:
    """A source that has given a value, which is stale now, and fails from here on."""
    source = Source()
    assert await fleet[0].get_or_compute("k", source, **options) == "value 1"
    await guards.age(guards.name("k"), 61)
    source.error, source.asked = error, 0
    return source


@pytest.mark.parametrize(
    ("fields", "options"),
    [({}, {}), ({"soft_timeout": 10.0}, {}), ({}, {"request_bound": True})],
    ids=["in the background", "with a soft time-out", "within a request"],
)
async def test_a_failing_source_is_asked_once_per_error_ttl_and_nobody_sees_the_error(
    guards: Guards, fields: dict[str, Any], options: dict[str, Any]
) -> None:
    fleet = fleet_of(guards, **fields)
    source = await broken(guards, fleet, RuntimeError("the source is down"), **options)
    for period in range(1, 5):
        assert await hammer(fleet, source, **options) == {"value 1"}
        assert source.asked == period
        await guards.age(guards.name("k"), ERROR_TTL - 1)
        assert await hammer(fleet, source, **options) == {"value 1"}
        assert source.asked == period
        await guards.age(guards.name("k"), 1.5)
    source.error = None
    await hammer(fleet, source, **options)
    assert await hammer(fleet, source, **options) == {"value 5"}
    assert source.asked == 5


async def test_stale_hits_do_not_ask_the_store_for_what_it_has_answered(guards: Guards) -> None:
    fleet = fleet_of(guards)
    source = await broken(guards, fleet, RuntimeError("the source is down"))
    asked = [count_asks(guard) for guard in fleet]
    for period in range(1, 4):
        assert await hammer(fleet, source) == {"value 1"}
        known = sum(map(len, asked))
        assert await hammer(fleet, source) == {"value 1"}
        await guards.age(guards.name("k"), ERROR_TTL - 1)
        assert await hammer(fleet, source) == {"value 1"}
        assert sum(map(len, asked)) == known and source.asked == period
        await guards.age(guards.name("k"), 1.5)


async def test_a_process_that_comes_late_asks_again_when_all_others_do(guards: Guards) -> None:
    first, late = fleet_of(guards)[:2]
    source = await broken(guards, [first], RuntimeError("the source is down"))
    assert await hammer([first], source) == {"value 1"}
    await guards.age(guards.name("k"), ERROR_TTL - 1)
    asked = count_asks(late)
    assert await hammer([late], source) == {"value 1"} and len(asked) == 1
    await guards.age(guards.name("k"), 1.5)
    source.error = None
    await hammer([late], source)
    assert await hammer([late], source) == {"value 2"}


@pytest.mark.parametrize("kind", [RuntimeError, HTTPException], ids=["told to all", "private"])
async def test_a_value_that_is_stored_meanwhile_is_refreshed_when_it_is_stale_in_its_turn(
    guards: Guards, kind: type[Exception]
) -> None:
    fleet = fleet_of(guards, error_ttl=6000.0)
    source = await broken(guards, fleet, kind("the source is down"))
    assert await hammer(fleet, source) == {"value 1"}
    source.error = None
    await fleet[0].invalidate("k")
    (stored,) = await hammer(fleet, source)
    assert stored != "value 1"
    await guards.age(guards.name("k"), 61)
    asked = source.asked
    await hammer(fleet, source)
    assert source.asked == asked + 1, "although the pause of the value before it is not over"


@pytest.mark.parametrize("options", [{}, {"request_bound": True}], ids=["in the background", "in a request"])
async def test_a_failure_that_must_not_leave_the_process_is_throttled_within_it(
    guards: Guards, options: dict[str, Any]
) -> None:
    fleet = fleet_of(guards, error_ttl=600.0)
    source = await broken(guards, fleet, HTTPException("not you"), **options)
    assert await hammer(fleet, source, **options) == {"value 1"}
    assert await hammer(fleet, source, **options) == {"value 1"}
    assert source.asked <= PROCESSES


async def test_while_the_store_is_away_the_source_is_asked_once_per_process(guards: Guards) -> None:
    fleet = fleet_of(guards, error_ttl=600.0)
    source = await broken(guards, fleet, RuntimeError("the source is down"))
    for guard in fleet:
        runtime = guard.engine.runtime()
        reading = await runtime.session.read(guards.name("k"))
        assert reading is not None
        runtime.last.drop(guards.name("k"))
        runtime.remember(guards.name("k"), reading._replace(remaining_ms=reading.stale_ms))
        runtime.away_for = lambda name, tags=(): True  # type: ignore[method-assign]
    assert await hammer(fleet, source) == {"value 1"}
    assert await hammer(fleet, source) == {"value 1"}
    assert source.asked == PROCESSES


async def test_a_pause_ends_by_itself_and_the_source_is_asked_again(guards: Guards) -> None:
    fleet = fleet_of(guards, error_ttl=0.05)[:1]
    source = await broken(guards, fleet, HTTPException("not you"))
    runtime = fleet[0].engine.runtime()
    for asked in range(1, 4):
        assert await fleet[0].get_or_compute("k", source) == "value 1"
        await until(lambda: not runtime.flights)
        assert source.asked == asked
        await until(lambda: not len(runtime.failing))
