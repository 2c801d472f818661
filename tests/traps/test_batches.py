"""One computation for several callers: only for callers who would have computed the same, in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from stampede_guard import StampedeGuard, cached_many, configure
from stampede_guard.stores.switch import Switch
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import fleet_sets

USER: ContextVar[str] = ContextVar("user", default="nobody")
LOCALE: ContextVar[str] = ContextVar("locale", default="none")
_BYPASS = Switch("bypass")


@pytest.fixture
def unconfigured() -> Iterator[None]:
    yield
    configure(None)


async def as_user(user: str, call: Callable[[], Awaitable[Any]]) -> Any:
    USER.set(user)
    return await call()


def sampled(guard: StampedeGuard, function: Any, ids: range) -> tuple[int, int]:
    """An id that is cached, and one that is not."""
    plan = next(
        cell.cell_contents._plan for cell in function.__closure__ if hasattr(cell.cell_contents, "_plan")
    )
    modes = {id: guard.engine.modes.of(plan, name) for id, name in function.keys(ids).items()}
    inside = next(id for id, mode in modes.items() if mode == "on")
    outside = next(id for id, mode in modes.items() if mode == "off")
    return inside, outside


@pytest.mark.parametrize("refreshing", [False, True])
@pytest.mark.parametrize("first", ["alice", "bob"])
async def test_an_id_outside_the_sample_is_computed_for_its_own_caller(
    guards: Guards, first: str, refreshing: bool
) -> None:
    guard = guards.guard(sample=0.5)

    @guard.cached_many(name="shop.names")
    async def names(ids: list[int]) -> dict[int, str]:
        await asyncio.sleep(0)
        return {id: USER.get() for id in ids}

    inside, outside = sampled(guard, names, range(40))
    call = names.refresh if refreshing else names
    users = [first, "bob" if first == "alice" else "alice"]
    calls = [asyncio.create_task(as_user(user, lambda: call([inside, outside]))) for user in users]
    for user, found in zip(users, await soon(asyncio.gather(*calls)), strict=True):
        assert found[outside] == user, "a plain call is the caller's own"
        assert found[inside] == "nobody", "what is stored was computed in a clean context"
    assert (await as_user("carol", lambda: names([inside])))[inside] == "nobody"


async def test_ids_outside_the_sample_wait_for_no_batch(guards: Guards) -> None:
    """And no batch for them: each of alice's and bob's plain calls is a call of its own."""
    guard, calls = guards.guard(sample=0.5), []

    @guard.cached_many(name="shop.names")
    async def names(ids: list[int]) -> dict[int, str]:
        calls.append((USER.get(), sorted(ids)))
        return dict.fromkeys(ids, USER.get())

    ids = range(40)
    inside, outside = sampled(guard, names, ids)
    wanted = [inside, outside]
    both = [asyncio.create_task(as_user(user, lambda: names(wanted))) for user in ("alice", "bob")]
    await soon(asyncio.gather(*both))
    assert sorted(calls) == [("alice", [outside]), ("bob", [outside]), ("nobody", [inside])]


async def test_a_function_with_plain_ids_keeps_its_order_and_leaves_out_what_does_not_exist(
    guards: Guards,
) -> None:
    guard = guards.guard(sample=0.5)

    @guard.cached_many(name="shop.products", max_ids=3)
    async def products(ids: list[int]) -> dict[int, int]:
        assert len(ids) <= 3
        return {id: id for id in ids if id % 3}

    for _ in range(2):
        found = await products(range(20))
        assert list(found) == [id for id in range(20) if id % 3]


Way = Callable[[StampedeGuard, Callable[[], Awaitable[int]]], Callable[[], Awaitable[Any]]]


def many(guard: StampedeGuard, inner: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[Any]]:
    @guard.cached_many(name="shop.outer")
    async def outer(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, await inner())

    async def call() -> int:
        return (await outer([1, 2]))[1]

    return call


def function(guard: StampedeGuard, inner: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[Any]]:
    @guard.locked_cache(name="shop.outer")
    async def outer() -> int:
        return await inner()

    return outer


def key(guard: StampedeGuard, inner: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[Any]]:
    return lambda: guard.get_or_compute("outer:1", inner, name="outer")


class Nested:
    """`inner` is cached, with the value 1; its source has come to 2. Who bypasses the store sees 2."""

    def __init__(self, guard: StampedeGuard, way: Way) -> None:
        self.source, self.gate, self.began = 1, Gate(), 0

        @guard.locked_cache(name="shop.inner")
        async def inner() -> int:
            return self.source

        async def held() -> int:
            self.began += 1
            await self.gate.hold()
            return await inner()

        self.inner, self.outer = inner, way(guard, held)

    async def prepare(self) -> None:
        assert await self.inner() == 1
        self.source = 2


@pytest.mark.parametrize("bypassing_first", [False, True])
@pytest.mark.parametrize("mode", ["on", "bypass"])
@pytest.mark.parametrize("way", [many, function, key])
async def test_a_call_within_bypassed_meets_no_call_without(
    guards: Guards, way: Way, mode: Any, bypassing_first: bool
) -> None:
    """Neither in a batch nor in a flight: one of them is served a nested value that is stored, the other is not."""
    guard = guards.guard()
    nested = Nested(guard, way)
    await nested.prepare()

    async def bypassing() -> Any:
        with guard.bypassed():
            return await nested.outer()

    async def ordinary() -> Any:
        return await nested.outer()

    if mode == "bypass":
        # The outer one does without the store by its mode, and what it calls is served from there.
        fleet_sets(guard, {"shop.outer": _BYPASS, f"{guard.namespace}:outer": _BYPASS})
    order = [bypassing, ordinary] if bypassing_first else [ordinary, bypassing]
    calls = [asyncio.create_task(call()) for call in order]
    await until(lambda: nested.began == 2)
    nested.gate.open()
    found = await soon(asyncio.gather(*calls))
    assert dict(zip(order, found, strict=True)) == {bypassing: 2, ordinary: 1}


async def test_callers_within_the_same_block_still_share_one_computation(guards: Guards) -> None:
    guard = guards.guard()
    nested = Nested(guard, many)
    with guard.bypassed():
        calls = [asyncio.create_task(nested.outer()) for _ in range(5)]
        await nested.gate.arrival()
        nested.gate.open()
        assert await soon(asyncio.gather(*calls)) == [1] * 5
    assert nested.began == 1


async def test_a_mode_switched_in_the_midst_of_a_call_is_heeded_by_the_next(guards: Guards) -> None:
    guard, gate, calls = guards.guard(), Gate(), []

    @guard.cached_many(name="shop.names")
    async def names(ids: list[int]) -> dict[int, str]:
        calls.append((USER.get(), list(ids)))
        await gate.hold()
        return dict.fromkeys(ids, USER.get())

    first = asyncio.create_task(as_user("alice", lambda: names([1, 2])))
    await gate.arrival()
    names.set_mode("off")
    second = asyncio.create_task(as_user("bob", lambda: names([2, 3])))
    await gate.arrival()
    gate.open()
    assert await soon(first) == {1: "nobody", 2: "nobody"}
    assert await soon(second) == {2: "bob", 3: "bob"}
    assert calls == [("nobody", [1, 2]), ("bob", [2, 3])]


@pytest.mark.parametrize("how", ["named", "unnamed", "unkeyed", "key"])
async def test_callers_who_differ_in_more_than_their_ids_are_computed_apart(guards: Guards, how: str) -> None:
    guard = guards.guard()
    options: Any = {
        "named": {"context": (LOCALE,)},
        "unnamed": {},
        "unkeyed": {"unkeyed": ("session",)},
        "key": {"key": lambda ids, session: (ids,)},
    }[how]

    @guard.cached_many(name="shop.names", ids="ids", **options)
    async def names(ids: list[int], session: str = "") -> dict[int, str]:
        await asyncio.sleep(0)
        return dict.fromkeys(ids, f"{LOCALE.get()} {session}")

    async def call(locale: str, ids: list[int]) -> Any:
        LOCALE.set(locale)
        return await (names(ids, locale) if how in ("unkeyed", "key") else names(ids))

    calls = [asyncio.create_task(call("de", [1, 2])), asyncio.create_task(call("fr", [3, 4]))]
    german, french = await soon(asyncio.gather(*calls))
    expected = {
        "named": ("de ", "fr "),
        "unnamed": ("none ", "none "),
        "unkeyed": ("none de", "none fr"),
        "key": ("none de", "none fr"),
    }[how]
    assert (set(german.values()), set(french.values())) == ({expected[0]}, {expected[1]})


async def test_callers_who_give_another_kind_of_collection_are_computed_apart(guards: Guards) -> None:
    guard, kinds = guards.guard(), []

    @guard.cached_many(name="shop.names")
    async def names(ids: Any) -> dict[int, str]:
        kinds.append(type(ids))
        return dict.fromkeys(ids, type(ids).__name__)

    calls = [asyncio.create_task(names(given)) for given in ([1], (2,), {3}, frozenset({4}))]
    await soon(asyncio.gather(*calls))
    assert sorted(kinds, key=str) == sorted([list, tuple, set, frozenset], key=str)


@pytest.mark.usefixtures("unconfigured")
async def test_tenants_of_one_function_are_computed_apart(guards: Guards) -> None:
    """A function without a guard of its own is the configured one's, which may change while a call is under way."""
    guard, calls = guards.guard(), []

    @cached_many(ttl=300, name="shop.names")
    async def names(ids: list[int]) -> dict[int, str]:
        calls.append(sorted(ids))
        return dict.fromkeys(ids, "value")

    configure(guard.within("acme"))
    first = asyncio.create_task(names([1, 2]))
    await asyncio.sleep(0)
    configure(guard.within("umbrella"))
    second = asyncio.create_task(names([2, 3]))
    await soon(asyncio.gather(first, second))
    assert sorted(calls) == [[1, 2], [2, 3]]
