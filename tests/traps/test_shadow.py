"""Mode shadow: what it computes in its caller's full context is compared, and nobody is ever served it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.engine.modes.kept import kept_name
from stampede_guard.policy import Mode
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import comparisons_of, runtimes_of

USER: ContextVar[str] = ContextVar("user", default="nobody")


Call = Callable[[StampedeGuard], Awaitable[Any]]


def function(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    @guard.locked_cache(name="shop.page", **options)
    async def page() -> str:
        return USER.get()

    return page


def refreshed(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    @guard.locked_cache(name="shop.page", **options)
    async def page() -> str:
        return USER.get()

    async def call() -> str:
        return await (page.refresh() if guard.mode == "shadow" else page())

    return call


def tagged(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    return function(guard, tags=("shop",), **options)


def method(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    class Shop:
        def __cache_key__(self) -> str:
            return "shop"

        @guard.locked_cache(name="shop.page", **options)
        async def page(self) -> str:
            return USER.get()

    return Shop().page


def plain(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    @guard.locked_cache(name="shop.page", **options)
    def page() -> str:
        return USER.get()

    return lambda: asyncio.to_thread(page)


def many(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    @guard.cached_many(name="shop.page", **options)
    async def page(ids: list[int]) -> dict[int, str]:
        return dict.fromkeys(ids, USER.get())

    async def call() -> str:
        return (await page([7]))[7]

    return call


def key(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    async def compute() -> str:
        return USER.get()

    return lambda: guard.get_or_compute("page:7", compute, **options)


def block(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    """Computed in the block, which is the caller's own: in mode `on`, the value is the first caller's there."""

    async def call() -> str:
        async with guard.single("page:7", **options) as entry:
            if entry.missing:
                await entry.set(USER.get())
            return str(entry.value)

    return call


def tenant(guard: StampedeGuard, **options: Any) -> Callable[[], Awaitable[Any]]:
    return function(guard.within("acme"), **options)


FACES = [function, refreshed, tagged, method, plain, many, key, block, tenant]


async def no_looks(guard: StampedeGuard) -> None:
    await until(lambda: not any(comparisons_of(runtime) for runtime in list(runtimes_of(guard).values())))


async def called_in_shadow(guard: StampedeGuard, call: Callable[[], Awaitable[Any]], times: int) -> None:
    """As alice, so often that what she computes is kept, and compared with itself."""

    async def as_alice() -> None:
        USER.set("alice")
        for count in range(1, times + 1):
            assert await call() == "alice"
            # A look of a plain function is begun by a message to another event loop.
            await until(lambda count=count: sum(map(seen, guard.shadow_report().values())) >= count)  # type: ignore[misc]
            await no_looks(guard)

    await asyncio.create_task(as_alice())


def seen(counts: Any) -> int:
    return int(counts.same + counts.different + counts.missing + counts.unseen + counts.stale_same)


@pytest.mark.parametrize("l1", [0.0, 60.0])
@pytest.mark.parametrize("sample", [1.0, 0.999_999])
@pytest.mark.parametrize("face", FACES)
async def test_what_was_computed_in_shadow_is_served_to_nobody_afterwards(
    guards: Guards, face: Any, sample: float, l1: float
) -> None:
    """Not by mode `on`, here or in another process; nor as a stale value, from L1, or with the store away."""
    here = guards.guard(l1_ttl=l1, stale_ttl=600.0, sample=sample)
    here.mode = "shadow"
    call = face(here)
    await called_in_shadow(here, call, 3)
    (counts,) = here.shadow_report().values()
    assert (counts.stored, counts.same) == (1, 1), "it is kept, and compared"
    here.mode = "on"
    there = face(guards.guard(stale_ttl=600.0))

    async def as_bob(call: Callable[[], Awaitable[Any]]) -> Any:
        USER.set("bob")
        return await call()

    # In the clean context of a flight nobody is logged in; the block of `single` is bob's own.
    expected = "bob" if face is block else "nobody"
    for ask in (call, there):
        assert await asyncio.create_task(as_bob(ask)) == expected


@pytest.mark.parametrize("mode", ["bypass", "off", "on"])
async def test_a_look_that_ends_after_the_switch_stores_nothing_that_is_served(
    guards: Guards, mode: Mode
) -> None:
    guard, gate = guards.guard(mode="shadow"), Gate()

    @guard.locked_cache(name="shop.page")
    async def page() -> str:
        if USER.get() == "alice" and gate.entered < 1 and counts():
            await gate.hold()
        return USER.get()

    def counts() -> int:
        return sum(map(seen, guard.shadow_report().values()))

    async def as_alice() -> str:
        USER.set("alice")
        return await page()

    await asyncio.create_task(as_alice())
    await no_looks(guard)
    late = asyncio.create_task(as_alice())
    await gate.arrival()
    guard.mode = mode
    gate.open()
    assert await soon(late) == "alice"
    await no_looks(guard)
    guard.mode = "on"
    assert await page() == "nobody"


async def test_shadow_joins_no_flight_and_nobody_joins_it(guards: Guards) -> None:
    guard, gate = guards.guard(), Gate()

    @guard.locked_cache(name="shop.page")
    async def page() -> str:
        await gate.hold()
        return USER.get()

    async def as_user(user: str) -> str:
        USER.set(user)
        return await page()

    on = asyncio.create_task(as_user("carol"))
    await gate.arrival()
    guard.mode = "shadow"
    shadow = asyncio.create_task(as_user("alice"))
    await gate.arrival()
    guard.mode = "on"
    later = asyncio.create_task(as_user("bob"))
    await until(lambda: any(flight.joined == 2 for flight in guard.engine.runtime().flights.values()))
    gate.open()
    assert await soon(asyncio.gather(on, shadow, later)) == ["nobody", "alice", "nobody"]


async def test_what_is_kept_knows_of_invalidations_by_processes_that_are_not_in_shadow(
    guards: Guards,
) -> None:
    here, there = guards.guard(), guards.guard()
    here.mode = "shadow"
    await called_in_shadow(here, key(here), 3)
    assert await there.invalidate("page:7") == "done"
    await called_in_shadow(here, key(here), 5)
    (counts,) = here.shadow_report().values()
    assert (counts.missing, counts.stored, counts.different) == (4, 2, 0)


async def test_what_stands_under_the_entrys_own_name_is_never_a_shadows(guards: Guards) -> None:
    guard = guards.guard(mode="shadow")
    await called_in_shadow(guard, key(guard), 3)
    session, name = guard.engine.runtime().session, guards.name("page:7")
    assert await session.read(name) is None
    assert await session.read(kept_name(name)) is not None


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError(), StopIteration()])
@pytest.mark.parametrize("callback", ["ttl", "should_cache"])
async def test_a_function_about_the_value_ends_neither_the_call_nor_its_look(
    guards: Guards, callback: str, error: BaseException
) -> None:
    guard = guards.guard(mode="shadow")

    def broken(value: Any) -> float:
        raise error

    @guard.locked_cache(name="shop.page", **{callback: broken})
    async def page() -> str:
        return "value"

    for _ in range(3):
        assert await page() == "value"
        await no_looks(guard)
    assert guard.shadow_report()["shop.page"].unsupported == 3


@dataclasses.dataclass
class Pet:
    """Equal by its id, as entities often are."""

    id: int
    name: str
    tags: dict[str, int] = dataclasses.field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pet) and self.id == other.id

    __hash__ = None  # type: ignore[assignment]


class Strange(Pet):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never ask me")

    __hash__ = None  # type: ignore[assignment]


CAT, DOG = Pet(1, "cat"), Pet(1, "dog")
COMPARED = [
    (Pet, [CAT, DOG], "different"),
    (list[Pet], [[CAT], [DOG]], "different"),
    (dict[str, Pet], [{"a": CAT}, {"a": DOG}], "different"),
    (Strange, [Strange(1, "cat"), Strange(1, "cat")], "same"),
    (Any, [1, True], "different"),
    (Any, [{"a": 1, "b": [1.0]}, {"b": [1.0], "a": 1}], "same"),
    (Any, [{"a": 1, "b": [1.0]}, {"b": [2.0], "a": 1}], "different"),
    (Pet, [Pet(1, "cat", {"a": 1, "b": 2}), Pet(1, "cat", {"b": 2, "a": 1})], "same"),
    (Any, [{"a", "b"}, {"b", "a"}], "same"),
    (Any, [float("nan"), float("nan")], "same"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "found"), COMPARED)
async def test_values_are_compared_by_what_they_hold(
    guards: Guards, kind: Any, values: list[Any], found: str
) -> None:
    guard = guards.guard(mode="shadow")

    computed = iter([values[0], values[0], values[1]])

    async def compute() -> Any:
        return next(computed)

    for _ in range(3):
        await guard.get_or_compute("pet:1", compute, type=kind)
        await no_looks(guard)
    (counts,) = guard.shadow_report().values()
    assert (counts.stored, getattr(counts, found)) == (1, 1)
