"""Cancelled at every single await, holds and elections leave nothing behind: no lease, no place, no task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stampede_guard.errors import LeaseLost
from stampede_guard.leases.exclusive import SKIPPED
from tests.leases.test_hold import Faulty
from tests.leases.virtual import Fleet, virtually

Scene = Callable[[Fleet], Coroutine[Any, Any, object]]
MOST_STEPS = 2_000


async def held(fleet: Fleet) -> None:
    backend = Faulty(fleet.rows)
    async with fleet.process("a", backend=lambda: backend).hold("n", 3) as lease:
        await lease.check()
        await asyncio.sleep(2.5)


async def waited_for(fleet: Fleet) -> None:
    other, backend = Faulty(fleet.rows), Faulty(fleet.rows)

    async def first() -> None:
        async with fleet.process("other", backend=lambda: other).hold("n", 3):
            await asyncio.sleep(1.2)

    task = asyncio.create_task(first())
    try:
        await asyncio.sleep(0.1)
        async with fleet.process("a", backend=lambda: backend).hold("n", 3):
            await asyncio.sleep(0.1)
    finally:
        # Not part of what is cancelled.
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue


async def nested(fleet: Fleet) -> None:
    backend = Faulty(fleet.rows)
    leases = fleet.process("a", backend=lambda: backend)
    async with leases.hold("outer", 3), leases.hold("n", 3):
        await asyncio.sleep(0.1)


async def lost(fleet: Fleet) -> None:
    backend = Faulty(fleet.rows)
    async with fleet.process("a", backend=lambda: backend).hold("n", 3):
        backend.away = True
        try:
            await asyncio.sleep(10)
        finally:
            backend.away = False


async def exclusive(fleet: Fleet) -> None:
    backend = Faulty(fleet.rows)

    async def body() -> None:
        await asyncio.sleep(0.1)

    leases = fleet.process("a", backend=lambda: backend)
    assert await leases.run_exclusive("n", overlap="replace", lease_ttl=3).run(body) is not SKIPPED


async def replaced(fleet: Fleet) -> None:
    other, backend = Faulty(fleet.rows), Faulty(fleet.rows)

    async def first() -> None:
        with contextlib.suppress(LeaseLost):
            async with fleet.process("other", backend=lambda: other).hold("n", 3):
                held.set()
                await asyncio.sleep(5)

    async def body() -> None:
        await asyncio.sleep(0.1)

    held = asyncio.Event()
    task = asyncio.create_task(first())
    try:
        await held.wait()
        leases = fleet.process("a", backend=lambda: backend)
        await leases.run_exclusive("n", overlap="replace", lease_ttl=3).run(body)
    finally:
        # Not part of what is cancelled.
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue


async def elected(fleet: Fleet) -> None:
    backend = Faulty(fleet.rows)

    async def lead(lease: object) -> None:
        await asyncio.sleep(100)

    async with fleet.process("a", backend=lambda: backend).election("n", lease_ttl=3, on_elected=lead) as e:
        await e.wait_elected()
        await asyncio.sleep(2)
        await e.resign()
        await e.wait_elected()


def cancelled_at(step: int, scene: Scene) -> bool:
    """Whether the scene had come so far."""

    async def main(fleet: Fleet) -> bool:
        task = asyncio.create_task(stepped(scene(fleet), step))
        await asyncio.wait({task})
        reached = task.cancelled()
        if not reached:
            task.exception()
        for leases in fleet.all:
            await leases.aclose()
        names = fleet.rows.names()
        assert [name for name in names if fleet.holder(name[2:]) or fleet.waiting(name[2:])] == []
        return reached

    return virtually(main)


async def stepped(coroutine: Coroutine[Any, Any, object], step: int) -> object:
    return await _Cancelling(coroutine, step)


class _Cancelling:
    """Passes on what the coroutine awaits, and cancels it at the awaited thing number `step`."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], step: int) -> None:
        self._coroutine = coroutine
        self._left = step

    def __await__(self) -> Any:
        inner = self._coroutine.__await__()
        result = None
        error: BaseException | None = None
        while True:
            try:
                if error is None:
                    waited_for = inner.send(result)
                else:
                    waited_for = inner.throw(error)
            except StopIteration as stop:
                return stop.value
            if self._left == 0:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            self._left -= 1
            error, result = None, None
            try:
                result = yield waited_for
            except BaseException as raised:
                error = raised


@pytest.mark.parametrize("scene", [held, waited_for, nested, lost, exclusive, replaced, elected])
def test_cancelled_at_every_await_nothing_is_left_behind(scene: Scene) -> None:
    steps = 0
    while cancelled_at(steps, scene):
        steps += 1
        assert steps < MOST_STEPS
    assert steps >= 3
