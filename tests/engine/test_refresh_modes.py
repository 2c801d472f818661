"""`refresh()` in a mode that does not use the store: what that has is older, and is not served when the mode is on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stampede_guard import StampedeGuard, WaitTimeout
from stampede_guard.policy import Mode
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.gate import Gate, soon
from tests.support.guards import Guards
from tests.support.source import Source

Calls = tuple[Callable[[], Any], Callable[[], Any]]
"""A call, and its refresh."""


def decorated(guard: StampedeGuard, source: Source) -> Calls:
    @guard.locked_cache(ttl=300, name="f")
    async def read(id: int) -> int:
        return await source.read()

    return lambda: read(7), lambda: read.refresh(7)


def many(guard: StampedeGuard, source: Source) -> Calls:
    @guard.cached_many(ttl=300, name="m")
    async def read(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, await source.read())

    async def one(call: Any) -> Any:
        return (await call([7]))[7]

    return lambda: one(read), lambda: one(read.refresh)


def keyed(guard: StampedeGuard, source: Source) -> Calls:
    return (
        lambda: guard.get_or_compute("k", source.read, ttl=300),
        lambda: guard.refresh("k", source.read, ttl=300),
    )


def plain(guard: StampedeGuard, source: Source) -> Calls:
    @guard.locked_cache(ttl=300, name="p")
    def read(id: int) -> int:
        return source.number

    return lambda: asyncio.to_thread(read, 7), lambda: asyncio.to_thread(read.refresh, 7)


def at_a_desk(guard: StampedeGuard, source: Source) -> Calls:
    return (
        lambda: asyncio.to_thread(guard.sync.get_or_compute, "k", lambda: source.number, ttl=300),
        lambda: asyncio.to_thread(guard.sync.refresh, "k", lambda: source.number, ttl=300, in_thread=False),
    )


FACES = [decorated, many, keyed, plain, at_a_desk]


@contextlib.contextmanager
def in_mode(guard: StampedeGuard, mode: str) -> Iterator[None]:
    if mode == "bypassed()":
        with guard.bypassed():
            yield
    else:
        guard.mode = mode  # type: ignore[assignment]
        yield
        guard.mode = None


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("mode", ["bypass", "off", "shadow", "bypassed()"])
async def test_after_a_refresh_no_later_call_gets_an_older_value(
    face: Callable[[StampedeGuard, Source], Calls], mode: str, guards: Guards
) -> None:
    guard, source = guards.guard(l1_ttl=60), Source()
    ask, refresh = face(guard, source)
    assert await ask() == 1
    source.number = 2
    with in_mode(guard, mode):
        assert await refresh() == 2
    assert await ask() == 2


async def test_a_refresh_in_mode_off_needs_no_key(guards: Guards) -> None:
    guard = guards.guard()

    @guard.locked_cache(ttl=300, name="p")
    def read(thing: Any) -> int:
        return 7

    assert await asyncio.to_thread(read, 1) == 7
    with in_mode(guard, "off"):
        assert await asyncio.to_thread(read.refresh, object()) == 7


@pytest.mark.parametrize("mode", ["bypass", "off"])
async def test_the_older_value_is_gone_as_soon_as_the_store_is_back(mode: Mode) -> None:
    store, source = FaultyStore(), Source()
    guard = StampedeGuard(store, namespace="t")
    ask, refresh = decorated(guard, source)
    assert await ask() == 1
    source.number = 2
    store.fail()
    with in_mode(guard, mode):
        assert await soon(refresh()) == 2
    store.recover()
    assert await soon(ask()) == 2
    await guard.aclose()


async def test_a_refresh_that_fails_leaves_the_older_value(guards: Guards) -> None:
    guard = guards.guard()

    @guard.locked_cache(ttl=300, name="f")
    async def read() -> int:
        if guard.mode == "off":
            raise RuntimeError("the database is away")
        return 1

    assert await read() == 1
    with in_mode(guard, "off"), pytest.raises(RuntimeError, match="away"):
        await read.refresh()
    assert await read() == 1


@pytest.mark.parametrize("face", [decorated, many, keyed])
@pytest.mark.parametrize("mode", ["bypass", "bypassed()"])
async def test_a_refresh_is_not_content_with_a_computation_that_began_before_it(
    face: Callable[[StampedeGuard, Source], Calls], mode: str, guards: Guards
) -> None:
    guard, source = guards.guard(), Source()
    ask, refresh = face(guard, source)
    source.gate = gate = Gate()
    with in_mode(guard, mode):
        first = asyncio.create_task(ask())
        await gate.arrival()
        source.number = 2
        refreshing = [asyncio.create_task(refresh()) for _ in range(3)]
        await asyncio.sleep(0)
        gate.open()
        assert await soon(first) == 1
        assert await soon(asyncio.gather(*refreshing)) == [2] * 3
    assert source.computed == 2


async def test_such_a_refresh_does_not_wait_longer_than_any_call(guards: Guards) -> None:
    guard, source = guards.guard(mode="bypass", wait_timeout=0.05), Source()
    ask, refresh = decorated(guard, source)
    source.gate = gate = Gate()
    first = asyncio.create_task(ask())
    await gate.arrival()
    with pytest.raises(WaitTimeout):
        await soon(refresh())
    gate.open()
    first.cancel()
