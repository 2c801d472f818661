"""Mode shadow: the caller has a plain function; what the guard would have served is found out beside it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from stampede_guard import StampedeGuard, UnsupportedValue
from stampede_guard.engine.modes.kept import kept_name
from stampede_guard.engine.modes.shadow import MOST_LOOKS, ShadowCounts
from stampede_guard.errors import StoreUnavailable
from stampede_guard.events import Compared, Event
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import comparisons_of, runtimes_of, shadow_tokens_of
from tests.support.sessions import patient


class Source:
    """What a computation reads; `runs` counts the computations."""

    def __init__(self, *values: Any) -> None:
        self.values = list(values)
        self.runs = 0

    async def __call__(self) -> Any:
        self.runs += 1
        return self.values[min(self.runs, len(self.values)) - 1]


async def settled(guard: StampedeGuard, condition: Callable[[ShadowCounts], bool]) -> ShadowCounts:
    """The counts of the one function, when all looks have ended and they meet the condition."""

    def there() -> bool:
        (counts,) = guard.shadow_report().values() or [ShadowCounts()]
        return not comparisons_of(guard.engine.runtime()) and condition(counts)

    await until(there)
    (counts,) = guard.shadow_report().values()
    return counts


async def ask(guard: StampedeGuard, source: Source, times: int = 1, **fields: Any) -> list[Any]:
    """So many calls one after the other, each when the look of the one before has ended."""
    found = []
    for _ in range(times):
        found.append(await guard.get_or_compute("report:7", source, **fields))
        await until(lambda: not comparisons_of(guard.engine.runtime()))
    return found


async def test_every_caller_gets_what_his_own_call_computed(guards: Guards) -> None:
    guard, source = guards.guard(mode="shadow"), Source(1, 2, 3, 4, 5)
    assert await ask(guard, source, 5) == [1, 2, 3, 4, 5]
    assert (
        sorted(await asyncio.gather(*[guard.get_or_compute("report:7", source) for _ in range(9)])) == [5] * 9
    )
    assert source.runs == 14


async def test_the_first_call_finds_nothing_the_second_is_stored_and_the_third_is_compared(
    guards: Guards,
) -> None:
    guard, source = guards.guard(mode="shadow"), Source("same")
    await ask(guard, source, 1)
    assert guard.shadow_report() == {f"{guards.namespace}:get_or_compute": ShadowCounts(missing=1)}
    await ask(guard, source, 1)
    assert await settled(guard, lambda counts: counts.stored == 1) == ShadowCounts(missing=2, stored=1)
    await ask(guard, source, 3)
    assert await settled(guard, lambda counts: True) == ShadowCounts(same=3, missing=2, stored=1)


async def test_a_value_that_differs_is_counted_and_told_once_without_saying_whose(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard, source = guards.guard(mode="shadow"), Source("a", "secret-old", "secret-new")
    with caplog.at_level(logging.WARNING, "stampede_guard"):
        await ask(guard, source, 6)
    assert (await settled(guard, lambda counts: True)).different == 4
    told = [record.getMessage() for record in caplog.records if "shadow" in record.getMessage()]
    assert len(told) == 1
    assert "fresh value" in told[0] and f"{guards.namespace}:get_or_compute:" in told[0]
    assert "secret" not in told[0] and "report:7" not in told[0]


async def test_every_look_is_an_event(guards: Guards) -> None:
    told: list[Event] = []
    guard = guards.guard(mode="shadow")
    guard.add_hook(told.append)
    await ask(guard, Source("a", "a", "a", "b"), 4)
    entry = guards.name("report:7")
    assert [event for event in told if isinstance(event, Compared)] == [
        Compared(f"{guards.namespace}:get_or_compute", entry, found)
        for found in ("missing", "missing", "same", "different")
    ]


async def test_what_should_not_be_cached_is_not_stored(guards: Guards) -> None:
    guard = guards.guard(mode="shadow")
    await ask(guard, Source("value"), 3, should_cache=lambda value: False)
    assert await settled(guard, lambda counts: True) == ShadowCounts(unsupported=3)


async def test_a_value_is_stored_for_the_time_that_it_chooses(guards: Guards) -> None:
    guard, source = guards.guard(mode="shadow"), Source("value")
    await ask(guard, source, 2, ttl=lambda value: 7.0)
    await settled(guard, lambda counts: counts.stored == 1)
    reading = await guard.engine.runtime().session.read(kept_name(guards.name("report:7")))
    assert reading is not None and reading.total_ms == 7000


async def test_a_choice_that_fails_is_the_operators_to_hear_of_and_not_the_callers(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guards.guard(mode="shadow")

    def broken(value: str) -> bool:
        raise KeyError(value)

    with caplog.at_level(logging.WARNING, "stampede_guard"):
        assert await ask(guard, Source("secret"), 2, should_cache=broken) == ["secret"] * 2
    assert (await settled(guard, lambda counts: True)).unsupported == 2
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1 and "KeyError" in told[0] and "secret" not in told[0]


async def test_values_that_are_equal_but_written_differently_are_the_same(guards: Guards) -> None:
    guard, source = guards.guard(mode="shadow"), Source({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1})
    await ask(guard, source, 3, type=dict[str, int])
    assert (await settled(guard, lambda counts: True)).same == 1


async def test_a_stale_value_is_counted_as_stale_and_replaced(guards: Guards) -> None:
    guard, source = guards.guard(mode="shadow"), Source("old", "old", "old", "new", "new", "new")
    fields = {"ttl": 50.0, "stale_ttl": 50.0}
    await ask(guard, source, 2, **fields)
    await guards.age(kept_name(guards.name("report:7")), 60)
    await ask(guard, source, 1, **fields)
    assert (await settled(guard, lambda counts: True)).stale_same == 1
    await ask(guard, source, 2, **fields)
    counts = await settled(guard, lambda counts: counts.stored == 2)
    assert (counts.stale_different, counts.same) == (1, 1)


async def test_what_shadow_keeps_is_served_by_nobody_and_compared_with_what_mode_on_stores(
    guards: Guards,
) -> None:
    here, there, source = guards.guard(mode="shadow"), guards.guard(), Source("value")
    await ask(here, source, 2)
    await settled(here, lambda counts: counts.stored == 1)
    assert await there.get_or_compute("report:7", Source("other")) == "other"
    await ask(here, source, 1)
    assert (await settled(here, lambda counts: True)).different == 1


async def test_nobody_waits_for_a_shadow(guards: Guards) -> None:
    """Its token comes with a lease, which is given back at once."""
    here, there = guards.guard(mode="shadow"), guards.guard()
    await ask(here, Source("mine"), 1)
    assert await guards.lease_holder(guards.name("report:7")) == ""
    assert await soon(there.get_or_compute("report:7", Source("theirs"))) == "theirs"


async def test_a_computation_from_before_an_invalidation_is_not_stored_after_it(guards: Guards) -> None:
    here, there, gate = guards.guard(mode="shadow"), guards.guard(), Gate()
    await ask(here, Source("first"), 1)

    async def slow() -> str:
        await gate.hold()
        return "read before the invalidation"

    call = asyncio.create_task(here.get_or_compute("report:7", slow))
    await gate.arrival()
    await there.invalidate("report:7")
    gate.open()
    await soon(call)
    counts = await settled(here, lambda counts: counts.missing == 2)
    assert counts.stored == 0
    assert await there.get_or_compute("report:7", Source("after")) == "after"


async def test_a_token_that_comes_while_a_call_computes_is_for_the_next_call(guards: Guards) -> None:
    """The call may have read its data before an invalidation that the token would not know of."""
    guard, gate = guards.guard(mode="shadow"), Gate()

    async def slow() -> str:
        await gate.hold()
        return "value"

    call = asyncio.create_task(guard.get_or_compute("report:7", slow))
    await gate.arrival()
    await until(lambda: shadow_tokens_of(guard.engine.runtime()))
    gate.open()
    await soon(call)
    assert (await settled(guard, lambda counts: counts.missing == 1)).stored == 0


async def test_a_look_at_what_is_not_cacheable_takes_nobodys_slot(namespace: str) -> None:
    async with Guards("memory", namespace) as guards:
        here, there = guards.guard(mode="shadow"), guards.guard()
        await there.get_or_compute("report:7", Source("theirs"), should_cache=lambda value: False)
        await ask(here, Source("mine"), 3)
        assert guards.memory is not None
        assert guards.memory.look(guards.name("report:7")).slots == ()


async def test_a_guard_that_closes_in_the_midst_of_a_look_leaves_no_lease(guards: Guards) -> None:
    guard, gate = guards.guard(mode="shadow"), Gate()
    session = guard.engine.runtime().session
    acquire = session.acquire

    async def unanswered(*args: Any, **kwargs: Any) -> Any:
        await acquire(*args, **kwargs)
        await gate.hold()

    session.acquire = unanswered  # type: ignore[method-assign]
    assert await guard.get_or_compute("report:7", Source("value")) == "value"
    await gate.arrival()
    assert await guards.lease_holder(guards.name("report:7")) != ""
    await soon(guard.aclose())
    assert gate.cancelled == 1
    assert await guards.lease_holder(guards.name("report:7")) == ""


@pytest.mark.parametrize("way", ["key", "function", "many", "plain"])
async def test_a_value_whose_tag_has_changed_is_found_by_no_look_and_replaced(
    guards: Guards, way: str
) -> None:
    guard, number = guards.guard(mode="shadow", ttl=300.0), 1
    options: Any = {"tags": ("project:7",)}

    async def compute() -> int:
        return number

    @guard.locked_cache(**options)
    async def function() -> int:
        return number

    @guard.locked_cache(**options)
    def plain() -> int:
        return number

    @guard.cached_many(**options)
    async def many(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, number)

    async def call() -> None:
        match way:
            case "key":
                await guard.get_or_compute("report:7", compute, tags=("project:7",))
            case "function":
                await function()
            case "many":
                await many([7])
            case _:
                await asyncio.to_thread(plain)

    async def calls(until_counted: Callable[[ShadowCounts], bool]) -> ShadowCounts:
        await call()
        await until(lambda: any(map(until_counted, guard.shadow_report().values())))
        await until(lambda: not any(comparisons_of(runtime) for runtime in runtimes_of(guard).values()))
        (counts,) = guard.shadow_report().values()
        return counts

    await calls(lambda counts: counts.missing == 1)
    await calls(lambda counts: counts.stored == 1)
    assert (await calls(lambda counts: counts.same == 1)).different == 0
    number = 2
    assert await guard.invalidate_tag("project:7") == "done"
    await calls(lambda counts: counts.missing == 3)
    await calls(lambda counts: counts.stored == 2)
    assert await calls(lambda counts: counts.same == 2) == ShadowCounts(same=2, missing=4, stored=2)
    guard.mode = "on"
    number = 3
    if way == "key":
        assert await guard.get_or_compute("report:7", compute, tags=("project:7",)) == 3


async def test_an_error_is_the_callers_own_and_not_compared(guards: Guards) -> None:
    guard = guards.guard(mode="shadow")

    async def failing() -> None:
        raise LookupError("mine")

    for _ in range(3):
        with pytest.raises(LookupError, match="mine"):
            await guard.get_or_compute("report:7", failing)
    await until(lambda: not comparisons_of(guard.engine.runtime()))
    assert guard.shadow_report() == {}


async def test_a_cancelled_caller_takes_his_look_along(guards: Guards) -> None:
    guard, gate = guards.guard(mode="shadow"), Gate()
    call = asyncio.create_task(guard.get_or_compute("report:7", gate.hold))
    await gate.arrival()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not comparisons_of(guard.engine.runtime()))
    assert gate.cancelled == 1


async def test_what_cannot_be_stored_is_the_callers_all_the_same_and_said_once(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard, lock = guards.guard(mode="shadow", strict=True), threading.Lock()
    with caplog.at_level(logging.WARNING, "stampede_guard"):
        assert await ask(guard, Source(lock), 3) == [lock] * 3
    assert (await settled(guard, lambda counts: True)).unsupported == 3
    assert len([record for record in caplog.records if "could not be cached" in record.getMessage()]) == 1
    guard.mode = "on"
    with pytest.raises(UnsupportedValue):
        await guard.get_or_compute("report:7", Source(lock))


async def test_a_value_that_the_caller_changes_is_compared_as_it_was_computed(guards: Guards) -> None:
    guard = guards.guard(mode="shadow")

    async def compute() -> list[int]:
        return [1]

    for _ in range(4):
        (await guard.get_or_compute("report:7", compute)).append(2)
        await until(lambda: not comparisons_of(guard.engine.runtime()))
    assert (await settled(guard, lambda counts: True)).different == 0


async def test_an_error_of_the_store_is_nobodys(guards: Guards, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, source = guards.guard(mode="shadow"), Source("value")

    def away(name: str) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(StoreUnavailable("away"))
        return future

    monkeypatch.setattr(guard.engine.runtime().session, "read", away)
    assert await ask(guard, source, 3) == ["value"] * 3
    assert await settled(guard, lambda counts: True) == ShadowCounts(unseen=3)


async def test_looks_are_bounded_and_callers_are_not(guards: Guards) -> None:
    guard, gate = guards.guard(mode="shadow"), Gate()
    calls = [
        asyncio.create_task(guard.get_or_compute(f"report:{n}", gate.hold)) for n in range(MOST_LOOKS + 5)
    ]
    for _ in calls:
        await gate.arrival()
    assert len(comparisons_of(guard.engine.runtime())) == MOST_LOOKS
    gate.open()
    await soon(asyncio.gather(*calls))
    counts = await settled(guard, lambda counts: counts.missing == MOST_LOOKS)
    assert counts.unseen == 5


async def test_closing_does_not_wait_for_what_is_looked_at(guards: Guards) -> None:
    guard, gate = guards.guard(mode="shadow"), Gate()
    call = asyncio.create_task(guard.get_or_compute("report:7", gate.hold))
    await gate.arrival()
    await soon(guard.aclose())
    assert not call.done(), "a plain function is nobody's to end"
    gate.open()
    await soon(call)


async def test_a_decorated_function_is_in_shadow_too_and_so_is_its_refresh(guards: Guards) -> None:
    runs = 0

    @guards.guard(mode="shadow").locked_cache(name="shop.quality")
    async def quality(project: int) -> int:
        nonlocal runs
        runs += 1
        return project

    assert [await quality(7), await quality(7), await quality.refresh(7)] == [7, 7, 7]
    assert runs == 3


async def test_a_function_of_many_ids_is_called_as_it_was_and_looked_at_id_by_id(guards: Guards) -> None:
    guard = guards.guard(mode="shadow")
    calls: list[list[int]] = []

    @guard.cached_many(name="shop.products")
    async def products(ids: list[int]) -> dict[int, str]:
        calls.append(ids)
        return {id: f"product {id}" for id in ids if id < 10}

    for _ in range(3):
        assert await products([1, 2, 99]) == {1: "product 1", 2: "product 2"}
        await until(lambda: not comparisons_of(guard.engine.runtime()))
    assert calls == [[1, 2, 99]] * 3
    counts = await settled(guard, lambda counts: counts.stored == 3)
    assert (counts.missing, counts.same) == (6, 3)


def test_a_plain_function_computes_in_its_callers_thread_also_in_shadow(
    valkey_url: str, namespace: str
) -> None:
    with contextlib.closing(StampedeGuard.from_url(patient(valkey_url), namespace=namespace)) as guard:
        guard.mode = "shadow"

        @guard.locked_cache(name="shop.plain")
        def plain(project: int) -> str:
            return threading.current_thread().name

        for count in range(1, 5):
            assert plain(7) == threading.current_thread().name
            done = threading.Event()
            for _ in range(2000):
                counts = guard.shadow_report().get("shop.plain", ShadowCounts())
                if counts.missing + counts.same >= count and counts.stored >= (count > 1):
                    break
                done.wait(0.005)
        counts = guard.shadow_report()["shop.plain"]
        assert (counts.missing, counts.stored, counts.same) == (2, 1, 2)


async def test_each_block_of_single_computes_in_shadow(guards: Guards) -> None:
    guard = guards.guard(mode="shadow")
    for number in range(3):
        async with guard.single("report:7") as entry:
            assert entry.missing
            assert await entry.set(number) == number
        await until(lambda: not comparisons_of(guard.engine.runtime()))
    counts = await settled(guard, lambda counts: counts.stored == 1)
    assert (counts.missing, counts.different) == (2, 1)


# --- sample -----------------------------------------------------------------------------------------------


async def test_a_sample_is_cached_and_the_others_are_plain_calls(guards: Guards) -> None:
    guard, runs = guards.guard(sample=0.3), 0

    @guard.locked_cache(name="shop.quality")
    async def quality(project: int) -> int:
        nonlocal runs
        runs += 1
        return project

    for _ in range(2):
        assert [await quality(project) for project in range(40)] == list(range(40))
    cached = [
        project
        for project in range(40)
        if guard.engine.modes.of(quality_plan(quality), quality.key(project)) == "on"
    ]
    assert 0 < len(cached) < 40
    assert runs == 40 + (40 - len(cached))


def quality_plan(function: Any) -> Any:
    return next(
        cell.cell_contents._plan for cell in function.__closure__ if hasattr(cell.cell_contents, "_plan")
    )


async def test_calls_outside_the_sample_wait_for_nobody_and_leave_nothing(guards: Guards) -> None:
    guard, gate = guards.guard(sample=0.0), Gate()
    calls = [asyncio.create_task(guard.get_or_compute("report:7", gate.hold)) for _ in range(5)]
    for _ in calls:
        await gate.arrival()
    gate.open()
    await soon(asyncio.gather(*calls))
    assert runtimes_of(guard) == {}


async def test_ids_outside_the_sample_are_computed_by_each_call(guards: Guards) -> None:
    guard, asked = guards.guard(sample=0.5), [0] * 20

    @guard.cached_many(name="shop.products")
    async def products(ids: list[int]) -> dict[int, int]:
        for id in ids:
            asked[id] += 1
        return {id: id for id in ids}

    for _ in range(3):
        assert await products(list(range(20))) == {id: id for id in range(20)}
    assert set(asked) == {1, 3}


def test_a_plain_function_outside_the_sample_stays_in_its_callers_thread() -> None:
    with contextlib.closing(StampedeGuard.from_url("memory://")) as guard:

        @guard.locked_cache(sample=0.0)
        def plain(project: int) -> str:
            return threading.current_thread().name

        assert plain(7) == threading.current_thread().name
        assert runtimes_of(guard) == {}
