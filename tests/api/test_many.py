"""`@cached_many`: id by id, computed together."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stampede_guard import PolicyError, StampedeGuard, cached_many
from stampede_guard.api.types import CachedMany
from stampede_guard.errors import (
    ComputeFailed,
    ComputeTimeout,
    KeyPartError,
    Misuse,
    ReentrantCall,
    UnsupportedValue,
)
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, in_time, soon, until
from tests.support.guards import Guards, ours
from tests.support.heap import collect
from tests.support.inside import limit
from tests.support.listener import PATIENCE
from tests.support.sessions import patient

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def guard() -> StampedeGuard:
    return StampedeGuard(MemoryStore(), namespace="t")


@dataclass(frozen=True)
class Product:
    number: int
    name: str


class Catalogue:
    """The source. `calls` are the ids of each call; odd hundreds do not exist."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.gate: Gate | None = None
        self.error: Exception | None = None

    async def __call__(self, ids: Iterable[int]) -> dict[int, Product]:
        self.calls.append(list(ids))
        if self.gate is not None:
            await self.gate.hold()
        if self.error is not None:
            raise self.error
        return {id: Product(id, f"product {id}") for id in ids if id // 100 % 2 == 0}

    @property
    def computed(self) -> list[int]:
        return sorted(id for call in self.calls for id in call)

    def cached(self, guard: StampedeGuard, **options: Any) -> CachedMany[[list[int]], int, Product]:
        @guard.cached_many(**{"ttl": 300, "name": "products"} | options)
        async def products(ids: list[int]) -> dict[int, Product]:
            return await self(ids)

        return products


def product(id: int) -> Product:
    return Product(id, f"product {id}")


# --- one call for what is missing -----------------------------------------------------------------------


async def test_missing_ids_are_computed_in_one_call_and_found_ones_are_not(guards: Guards) -> None:
    source = Catalogue()
    products = source.cached(guards.guard())
    assert await products([1, 2, 3]) == {1: product(1), 2: product(2), 3: product(3)}
    assert list(await products([4, 2, 5, 3])) == [4, 2, 5, 3], "in the order of the question"
    assert await products([5, 1]) == {5: product(5), 1: product(1)}
    assert source.calls == [[1, 2, 3], [4, 5]]
    assert await products([]) == {}


async def test_an_id_that_is_asked_twice_is_one(guards: Guards) -> None:
    source = Catalogue()
    assert await source.cached(guards.guard())([1, 1, 2, 1]) == {1: product(1), 2: product(2)}
    assert source.calls == [[1, 2]]


async def test_the_ids_of_one_call_travel_together(valkey_url: str, namespace: str) -> None:
    async with Guards(patient(valkey_url), namespace) as guards:
        source, guard = Catalogue(), guards.guard()
        products = source.cached(guard)
        everything = list(range(50))
        await products(everything)
        session: Any = guard.engine.runtime().session
        sent: list[Any] = []
        send = session._lane.send
        session._lane.send = lambda call: (sent.append(call), send(call))[1]
        assert len(await products(everything)) == 50
        assert len(sent) == 1, "one read for all"


async def test_processes_with_overlapping_ids_compute_each_id_once(guards: Guards) -> None:
    source = Catalogue()
    source.gate = Gate()
    fleet = [source.cached(guards.guard()) for _ in range(3)]
    wanted = [list(range(20)), list(range(10, 30)), list(range(5, 35))]
    callers = [asyncio.create_task(products(ids)) for products, ids in zip(fleet, wanted, strict=True)]
    await until(lambda: source.computed == list(range(35)))
    source.gate.open()
    for ids, found in zip(wanted, await soon(asyncio.gather(*callers)), strict=True):
        assert found == {id: product(id) for id in ids}
    assert source.computed == list(range(35)), "each once"
    assert len(source.calls) <= 3, "and together"


async def test_calls_of_one_process_join_what_is_in_flight_and_compute_the_rest_in_one_call(
    guards: Guards,
) -> None:
    source = Catalogue()
    source.gate = Gate()
    products = source.cached(guards.guard())
    first = asyncio.create_task(products([1, 2, 3]))
    await source.gate.arrival()
    second = asyncio.create_task(products([2, 3, 4, 5]))
    await source.gate.arrival()
    assert source.calls == [[1, 2, 3], [4, 5]]
    source.gate.open()
    assert list(await soon(first)) == [1, 2, 3]
    assert list(await soon(second)) == [2, 3, 4, 5]


async def test_calls_of_one_tick_are_one_batch(guards: Guards) -> None:
    source = Catalogue()
    products = source.cached(guards.guard())
    found = await soon(asyncio.gather(*(products([id, id + 1]) for id in range(20))))
    assert found == [{id: product(id), id + 1: product(id + 1)} for id in range(20)]
    assert source.calls == [list(range(21))]


@pytest.fixture
def patience_in_gathering(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that begins only because its time is over fails the test."""
    monkeypatch.setattr("stampede_guard.engine.flights.batch.GATHER_SECONDS", PATIENCE * 10)


def hold_back(guard: StampedeGuard, names: set[str]) -> Gate:
    """The answers to these acquire the lease later than all others."""
    gate = Gate()
    session: Any = guard.engine.runtime().session
    acquire = session.acquire

    async def late(name: str, **options: Any) -> Any:
        if name in names:
            await gate.hold()
        return await acquire(name, **options)

    session.acquire = late
    return gate


async def test_ids_whose_leases_come_at_different_times_are_computed_in_one_call(
    guards: Guards, patience_in_gathering: None
) -> None:
    source, guard = Catalogue(), guards.guard()
    products = source.cached(guard)
    keys = products.keys([1, 2, 3])
    late = hold_back(guard, {keys[2]})
    caller = asyncio.create_task(products([1, 2, 3]))
    await late.arrival()
    await until(lambda: all(guard.engine.runtime().flights[keys[id]].computing for id in (1, 3)))
    late.open()
    assert list(await soon(caller)) == [1, 2, 3]
    assert [sorted(call) for call in source.calls] == [[1, 2, 3]]


async def test_a_batch_waits_for_no_answer_longer_than_a_moment(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.engine.flights.batch.GATHER_SECONDS", 0.1)
    source, guard = Catalogue(), guards.guard()
    products = source.cached(guard)
    late = hold_back(guard, {products.keys([2])[2]})
    caller = asyncio.create_task(products([1, 2, 3]))
    await until(lambda: source.calls == [[1, 3]])
    late.open()
    assert list(await soon(caller)) == [1, 2, 3]
    assert source.calls == [[1, 3], [2]]


async def test_ids_held_elsewhere_do_not_keep_the_others_from_being_computed(
    guards: Guards, patience_in_gathering: None
) -> None:
    source = Catalogue()
    source.gate = Gate()
    here, there = source.cached(guards.guard()), source.cached(guards.guard())
    first = asyncio.create_task(there([1, 2]))
    await source.gate.arrival()
    second = asyncio.create_task(here([1, 2, 3, 4]))
    await source.gate.arrival()
    assert source.calls == [[1, 2], [3, 4]]
    source.gate.open()
    assert [list(found) for found in await soon(asyncio.gather(first, second))] == [[1, 2], [1, 2, 3, 4]]


async def test_calls_that_ask_crosswise_do_not_wait_for_each_other(guards: Guards) -> None:
    """Each holds what the other waits for, in groups that are computed apart."""
    seen: list[tuple[str, list[int]]] = []

    @guards.guard().cached_many(ttl=300, unkeyed=("db",))
    async def products(ids: list[int], db: str) -> dict[int, str]:
        seen.append((db, ids))
        await asyncio.sleep(0)
        return dict.fromkeys(ids, db)

    calls = [products([1, 2, 3], "a"), products([3, 4, 1], "b"), products([4, 2, 5], "c")]
    one, two, three = await soon(asyncio.gather(*calls))
    assert one | two | three == {1: "a", 2: "a", 3: "a", 4: "b", 5: "c"}
    assert seen == [("a", [1, 2, 3]), ("b", [4]), ("c", [5])]


async def test_more_than_max_ids_are_computed_in_several_calls(guards: Guards) -> None:
    source = Catalogue()
    products = source.cached(guards.guard(), max_ids=10)
    assert list(await products(list(range(25)))) == list(range(25))
    assert [len(call) for call in source.calls] == [10, 10, 5]
    source.calls.clear()
    await soon(asyncio.gather(*(products(list(range(first, first + 6))) for first in range(30, 60, 6))))
    assert max(len(call) for call in source.calls) <= 10, "also when several calls come together"


# --- other parameters -----------------------------------------------------------------------------------


async def test_other_parameters_are_part_of_each_ids_key_and_are_not_computed_together(
    guards: Guards,
) -> None:
    calls = []

    @guards.guard().cached_many(ttl=300, ids="items")
    async def priced(shop: str, items: tuple[int, ...], *, currency: str = "eur") -> dict[int, str]:
        calls.append((shop, items, currency))
        return {id: f"{shop} {id} {currency}" for id in items}

    found = await soon(
        asyncio.gather(
            priced("a", (1, 2)),
            priced("b", (1,)),
            priced("a", items=(2, 3)),
            priced("a", (1,), currency="usd"),
        )
    )
    assert found == [
        {1: "a 1 eur", 2: "a 2 eur"}, {1: "b 1 eur"}, {2: "a 2 eur", 3: "a 3 eur"}, {1: "a 1 usd"},
    ]  # fmt: skip
    assert sorted(calls) == [("a", (1,), "usd"), ("a", (1, 2, 3), "eur"), ("b", (1,), "eur")]
    keys = priced.keys("a", (1, 2))
    assert keys[1].endswith(":shop='a',items=1,currency='eur'")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'items'"):
        await priced("a")  # type: ignore[call-arg]


async def test_key_is_called_with_one_id(guards: Guards) -> None:
    source = Catalogue()
    products = source.cached(guards.guard(), key=lambda id: ("product", id))
    assert await products([1, 2]) == {1: product(1), 2: product(2)}
    assert await products([2, 3]) == {2: product(2), 3: product(3)}
    assert source.calls == [[1, 2], [3]]
    assert "'product',1" in products.keys([1])[1]


tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


async def test_a_batch_runs_in_a_clean_context_with_the_named_variables(guards: Guards) -> None:
    calls = []
    guard = guards.guard()

    async def products(ids: list[int]) -> dict[int, str]:
        calls.append((tenant.get(), ids))
        return {id: tenant.get() for id in ids}

    async def acting_as(name: str, cached: Any, ids: list[int]) -> Any:
        tenant.set(name)
        return await cached(ids)

    named = guard.cached_many(ttl=300, context=(tenant,))(products)
    callers = [
        acting_as("acme", named, [1, 2]),
        acting_as("umbrella", named, [2, 3]),
        acting_as("acme", named, [3]),
    ]
    found = await soon(asyncio.gather(*map(asyncio.create_task, callers)))
    assert found == [{1: "acme", 2: "acme"}, {2: "umbrella", 3: "umbrella"}, {3: "acme"}]
    assert sorted(calls) == [("acme", [1, 2, 3]), ("umbrella", [2, 3])]
    clean = guard.cached_many(ttl=300, name="clean")(products)
    assert await asyncio.create_task(acting_as("acme", clean, [1])) == {1: "nobody"}


async def test_resources_are_opened_once_per_batch(guards: Guards) -> None:
    opened = []

    @contextlib.asynccontextmanager
    async def session() -> AsyncIterator[str]:
        opened.append(1)
        yield "session"

    @guards.guard().cached_many(ttl=300, resources={"db": session})
    async def products(ids: list[int], db: str) -> dict[int, str]:
        return dict.fromkeys(ids, db)

    assert await products([1, 2, 3]) == dict.fromkeys([1, 2, 3], "session")  # type: ignore[call-arg]
    assert len(opened) == 1


# --- what is not there ------------------------------------------------------------------------------------


async def test_an_id_that_the_function_leaves_out_is_remembered_as_absent(guards: Guards) -> None:
    source = Catalogue()
    here, there = source.cached(guards.guard()), source.cached(guards.guard())
    assert await here([1, 100, 101]) == {1: product(1)}
    assert await there([1, 100]) == {1: product(1)}
    assert source.calls == [[1, 100, 101]]


async def test_absence_is_forgotten_sooner_than_a_value(guards: Guards) -> None:
    source = Catalogue()
    products = source.cached(guards.guard(), absent_ttl=5)
    await products([1, 100])
    for key in products.keys([1, 100]).values():
        if guards.memory is None or key.endswith("=1"):
            await guards.age(key, 6)
    assert await products([1, 100]) == {1: product(1)}
    assert source.calls == [[1, 100], [100]]


@pytest.mark.parametrize("value", [None, False, 0, "", []])
async def test_what_counts_as_false_is_a_value_and_not_absence(guards: Guards, value: Any) -> None:
    calls = []

    async def products(ids: list[int]) -> dict[int, Any]:
        calls.append(ids)
        return dict.fromkeys(ids, value)

    cached = guards.guard().cached_many(ttl=300)(products)
    assert await cached([1]) == await cached([1]) == {1: value}
    assert len(calls) == 1


# --- errors -----------------------------------------------------------------------------------------------


async def test_a_failing_batch_fails_its_ids_only(guards: Guards) -> None:
    source = Catalogue()
    source.gate = Gate()
    here, there = (source.cached(guards.guard(), error_ttl=60) for _ in range(2))
    well = asyncio.create_task(here([1, 2]))
    await source.gate.arrival()
    source.gate.open()
    await soon(well)
    source.error = LookupError("the source is away")
    with pytest.raises(LookupError, match="the source is away"):
        await here([2, 3, 4])
    source.error = None
    with pytest.raises((LookupError, ComputeFailed), match="the source is away"):
        await there([3])
    assert await there([1, 2, 5]) == {1: product(1), 2: product(2), 5: product(5)}
    assert source.calls == [[1, 2], [3, 4], [5]]


async def test_a_value_that_cannot_be_stored_fails_its_id_only(guards: Guards) -> None:
    @guards.guard(strict=True).cached_many(ttl=300)
    async def products(ids: list[int]) -> dict[int, int]:
        return {id: object() if id == 2 else id for id in ids}  # type: ignore[misc]

    with pytest.raises(UnsupportedValue):
        await products([1, 2])
    assert await products([1]) == {1: 1}


async def test_ids_that_nobody_asked_for_are_an_error_that_tells_types_and_no_values(guards: Guards) -> None:
    @guards.guard().cached_many(ttl=300)
    async def products(ids: list[int]) -> dict[Any, str]:
        return {f"secret-{id}": "x" for id in ids}

    with pytest.raises(
        Misuse, match=r"2 ids that nobody asked for \(str\); it was given 2 \(int\)"
    ) as caught:
        await products([1, 2])
    assert "secret" not in str(caught.value)


async def test_a_result_that_is_no_dict_is_an_error(guards: Guards) -> None:
    @guards.guard().cached_many(ttl=300)
    async def products(ids: list[int]) -> dict[int, str]:
        return ["one", "two"]  # type: ignore[return-value]

    with pytest.raises(Misuse, match="must return a dict from id to value, and returned a list"):
        await products([1, 2])


async def test_ids_that_are_no_list_or_not_hashable_are_errors(guard: StampedeGuard) -> None:
    products = Catalogue().cached(guard)
    with pytest.raises(Misuse, match=r"'ids' of products.* must be a list of ids, not a str"):
        await products("123")  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="must be a list of ids, not a int"):
        await products(7)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="not hashable"):
        await products([[1]])  # type: ignore[list-item]
    with pytest.raises(KeyPartError, match="'ids'"):
        await products([object()])  # type: ignore[list-item]
    await guard.aclose()


def test_mistakes_are_errors_at_decoration() -> None:
    async def nothing() -> dict[int, int]:
        return {}

    async def a_list(ids: list[int]) -> list[int]:
        return ids

    async def good(ids: list[int]) -> dict[int, int]:
        return {}

    def plain(ids: list[int]) -> dict[int, int]:
        return {}

    with pytest.raises(Misuse, match="needs a parameter with a list of ids"):
        cached_many(ttl=300)(nothing)
    with pytest.raises(Misuse, match="ids='numbers' is not such a one"):
        cached_many(ttl=300, ids="numbers")(good)
    with pytest.raises(UnsupportedValue, match="needs a dict from id to value"):
        cached_many(ttl=300)(a_list)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="takes an async def function"):
        cached_many(ttl=300)(plain)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="absent_ttl"):
        cached_many(ttl=300, absent_ttl=0)(good)
    with pytest.raises(PolicyError, match="max_ids"):
        cached_many(ttl=300, max_ids=0)


async def test_a_batch_that_asks_for_one_of_its_own_ids_is_an_error_and_not_a_deadlock(
    guards: Guards,
) -> None:
    @guards.guard().cached_many(ttl=300)
    async def products(ids: list[int]) -> dict[int, int]:
        await products(ids[-1:])
        return dict.fromkeys(ids, 1)

    with pytest.raises(ReentrantCall):
        await soon(products([1, 2, 3]))


# --- cancellation and time ------------------------------------------------------------------------------


async def test_a_cancelled_caller_harms_nobody_and_its_ids_are_computed_all_the_same(guards: Guards) -> None:
    source = Catalogue()
    source.gate = Gate()
    here, there = source.cached(guards.guard()), source.cached(guards.guard())
    first = asyncio.create_task(here([1, 2, 3]))
    await source.gate.arrival()
    others = [asyncio.create_task(here([2, 4])), asyncio.create_task(there([3]))]
    await source.gate.arrival()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    source.gate.open()
    assert await soon(asyncio.gather(*others)) == [{2: product(2), 4: product(4)}, {3: product(3)}]
    assert await here([1]) == {1: product(1)}
    assert source.calls == [[1, 2, 3], [4]]
    assert source.gate.cancelled == 0


async def test_a_batch_in_a_request_ends_with_it_and_its_ids_go_to_who_waits_for_them(guards: Guards) -> None:
    gate, seen = Gate(), []

    @guards.guard().cached_many(ttl=300, unkeyed=("db",))
    async def products(ids: list[int], db: str) -> dict[int, str]:
        seen.append((db, ids))
        await gate.hold()
        return dict.fromkeys(ids, db)

    first = asyncio.create_task(products([1, 2], "first"))
    await gate.arrival()
    second = asyncio.create_task(products([2, 3], "second"))
    await gate.arrival()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert gate.cancelled == 1, "before the request went, its session was no longer used"
    await gate.arrival()
    gate.open()
    assert await soon(second) == {2: "second", 3: "second"}
    assert seen == [("first", [1, 2]), ("second", [3]), ("second", [2])]


async def test_an_overdue_batch_is_cancelled_and_its_ids_are_free(guards: Guards) -> None:
    source = Catalogue()
    source.gate = Gate()
    guard = guards.guard()
    products = source.cached(guard, compute_timeout=0.2, error_ttl=0)
    with pytest.raises(ComputeTimeout):
        await products([1, 2])
    assert source.gate.cancelled == 1
    assert guard.engine.runtime().abandoned == 0
    source.gate.open()
    assert list(await in_time(lambda: products([1, 2]))) == [1, 2]


async def test_an_overdue_batch_that_does_not_end_counts_once(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.engine.flights.computation.UNWIND_SECONDS", 0.05)
    released = asyncio.Event()
    guard = guards.guard()

    @guard.cached_many(ttl=300, compute_timeout=0.2)
    async def products(ids: list[int]) -> dict[int, int]:
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        return {}

    with pytest.raises(ComputeTimeout):
        await products([1, 2, 3])
    assert guard.engine.runtime().abandoned == 1
    released.set()
    await until(lambda: guard.engine.runtime().abandoned == 0)
    await until(lambda: not any("batch" in name for name in ours()))


async def test_nothing_of_a_call_is_left_when_it_is_over(guards: Guards) -> None:
    source, guard = Catalogue(), guards.guard()
    products = source.cached(guard)
    await products(list(range(20)))
    await soon(asyncio.gather(*(products([id, 100 + id]) for id in range(30))))
    (batches,) = guard.engine.runtime().batches.values()
    assert (batches._expected, batches._gatherings) == ({}, {})


async def test_a_function_that_is_gone_leaves_nothing_behind(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Timers keep it for these times.
    monkeypatch.setattr("stampede_guard.engine.flights.batch.GATHER_SECONDS", 0.1)
    guards.deadline = 0.5
    guard = guards.guard()

    async def of_one_request() -> None:
        @guard.cached_many(ttl=60)
        async def doubles(ids: list[int]) -> dict[int, int]:
            return {id: 2 * id for id in ids}

        assert await doubles([1, 2]) == {1: 2, 2: 4}
        assert len(guard.engine.runtime().batches) == 1

    def forgotten() -> bool:
        if guard.engine.runtime().flights:
            return False
        collect()
        return len(guard.engine.runtime().batches) == 0

    for _ in range(3):
        await of_one_request()
        # The last flight's task has one more turn of the event loop to take.
        await until(forgotten)
    await until(lambda: not guard.engine.runtime().flights)


# --- invalidation, refresh, modes -------------------------------------------------------------------------


async def test_invalidate_drops_these_ids_and_no_others(guards: Guards) -> None:
    source = Catalogue()
    here, there = source.cached(guards.guard()), source.cached(guards.guard())
    await here([1, 2, 3])
    assert await there.invalidate([1, 3]) == "done"
    assert list(await here([1, 2, 3])) == [1, 2, 3]
    assert source.calls == [[1, 2, 3], [1, 3]]


async def test_refresh_computes_anew_in_one_call(guards: Guards) -> None:
    source = Catalogue()
    products = source.cached(guards.guard())
    await products([1, 2])
    assert await products.refresh([1, 2, 3]) == {1: product(1), 2: product(2), 3: product(3)}
    assert source.calls == [[1, 2], [1, 2, 3]]
    assert list(await products([1, 2, 3])) == [1, 2, 3]
    assert len(source.calls) == 2


async def test_stale_ids_are_served_at_once_and_refreshed_in_one_call_in_the_background(
    guards: Guards,
) -> None:
    source = Catalogue()
    products = source.cached(guards.guard(), ttl=60, stale_ttl=600)
    await products([1, 2, 3])
    names = list(products.keys([1, 2, 3]).values())
    for name in names if guards.memory is None else names[:1]:
        await guards.age(name, 61)
    source.gate = Gate()
    assert list(await products([1, 2, 3])) == [1, 2, 3]
    await source.gate.arrival()
    assert source.calls == [[1, 2, 3]] * 2
    source.gate.open()


async def test_off_is_a_plain_call_and_bypass_is_one_flight_per_id(guard: StampedeGuard) -> None:
    source = Catalogue()
    products = source.cached(guard)
    products.set_mode("off")
    assert await products([1, 2]) == await products([1, 2]) == {1: product(1), 2: product(2)}
    products.set_mode("bypass")
    await soon(asyncio.gather(products([3, 4]), products([4, 5])))
    await products([3])
    assert source.calls == [[1, 2], [1, 2], [3, 4, 5], [3]]
    await guard.aclose()


async def test_while_the_store_is_away_a_batch_is_one_computation(guard: StampedeGuard) -> None:
    source = Catalogue()
    limit(guard, Limits(max_local_computations=1))
    products = source.cached(guard)
    guard.engine.runtime().away = True
    found = await soon(asyncio.gather(products(list(range(30))), products(list(range(20, 50)))))
    assert [list(one) for one in found] == [list(range(30)), list(range(20, 50))]
    assert source.computed == list(range(50))
    assert len(source.calls) <= 2
    await guard.aclose()


class Shop:
    def __init__(self, number: int) -> None:
        self.number = number
        self.calls: list[list[int]] = []

    def __cache_key__(self) -> int:
        return self.number

    @cached_many(ttl=300, guard=(shops := StampedeGuard(MemoryStore(), namespace="shops")))
    async def products(self, ids: list[int]) -> dict[int, str]:
        self.calls.append(ids)
        return {id: f"{self.number}/{id}" for id in ids}


async def test_it_works_on_methods() -> None:
    one, two = Shop(1), Shop(2)
    assert await one.products([1, 2]) == {1: "1/1", 2: "1/2"}
    assert await two.products([1]) == {1: "2/1"}
    assert await one.products.invalidate([1]) == "done"
    assert await one.products([1, 2]) == {1: "1/1", 2: "1/2"}
    assert (one.calls, two.calls) == ([[1, 2], [1]], [[1]])
    await Shop.shops.aclose()


# --- processes ----------------------------------------------------------------------------------------

WORKER = """
import asyncio, json, sys
from stampede_guard import StampedeGuard

url, namespace, first, last = sys.argv[1:]
guard = StampedeGuard.from_url(url, namespace=namespace)
computed = []

@guard.cached_many(ttl=300, name="numbers")
async def numbers(ids: list[int]) -> dict[int, int]:
    computed.extend(ids)
    await asyncio.sleep(0.2)
    return {id: id * id for id in ids}

async def main():
    async with guard:
        await guard.get_or_compute("warm", lambda: asyncio.sleep(0, 1))
        print("ready", flush=True)
        sys.stdin.readline()
        found = await numbers(list(range(int(first), int(last))))
        print(json.dumps([sorted(found.items()), computed]), flush=True)

asyncio.run(main())
"""


async def test_three_processes_compute_each_id_once(valkey_url: str, namespace: str) -> None:
    ranges = [(0, 40), (20, 60), (10, 50)]
    pipe = asyncio.subprocess.PIPE
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            WORKER,
            valkey_url,
            namespace,
            str(first),
            str(last),
            cwd=ROOT,
            stdin=pipe,
            stdout=pipe,
        )
        for first, last in ranges
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert await asyncio.wait_for(worker.stdout.readline(), PATIENCE) == b"ready\n"
        answers = await soon(asyncio.gather(*(worker.communicate(b"go\n") for worker in workers)))
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
    computed = []
    for (first, last), (output, _) in zip(ranges, answers, strict=True):
        found, own = json.loads(output)
        assert found == [[id, id * id] for id in range(first, last)]
        computed += own
    assert sorted(computed) == list(range(60))
