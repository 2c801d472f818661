"""Cancelled at every single await, on real stores: no lease, no place and no task are left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import LeaseLost
from stampede_guard.leases import Leases, PostgresLeases, RedisLeases
from stampede_guard.leases.exclusive import SKIPPED
from tests.leases.test_cancelled_anywhere import stepped

PATIENCE = 60.0
MOST_STEPS = 200

Make = Callable[[], Leases]
Scene = Callable[[Make], Coroutine[Any, Any, object]]


@pytest.fixture(params=["postgres", "valkey"])
async def make(request: pytest.FixtureRequest, namespace: str) -> Make:
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        async with PostgresLeases.from_url(url, namespace=namespace) as first:
            await first.create_schema()
        return lambda: PostgresLeases.from_url(url, namespace=namespace, connections=2)
    url = request.getfixturevalue("valkey_url")
    return lambda: RedisLeases.from_url(url, namespace=namespace, restart="trust")


async def held(make: Make) -> None:
    async with make() as leases, leases.hold("n", 30, wait=0) as lease:
        await lease.check()


async def waited_for(make: Make) -> None:
    async with make() as other, make() as leases:
        waiting: asyncio.Task[None] | None = None
        try:
            async with other.hold("n", 30):
                waiting = asyncio.create_task(_wait_for_it(leases))
                while not (view := await leases.show("n")) or not view.waiting:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            await waiting
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.wait({waiting})


async def _wait_for_it(leases: Leases) -> None:
    async with leases.hold("n", 30):
        pass


async def replaced(make: Make) -> None:
    async def body() -> None:
        await asyncio.sleep(0)

    async def first() -> None:
        with contextlib.suppress(LeaseLost):
            async with other.hold("n", 30):
                await asyncio.Event().wait()

    async with make() as other, make() as leases:
        task = asyncio.create_task(first())
        try:
            while not (view := await leases.show("n")) or not view.held:  # noqa: ASYNC110
                await asyncio.sleep(0)
            exclusive = leases.run_exclusive("n", overlap="replace", lease_ttl=30)
            assert await exclusive.run(body) is not SKIPPED
        finally:
            task.cancel()
            await asyncio.wait({task})


async def elected(make: Make) -> None:
    async def lead(_: object) -> None:
        await asyncio.Event().wait()

    async with make() as leases, leases.election("n", lease_ttl=30, on_elected=lead) as election:
        await election.wait_elected(PATIENCE)
        await election.resign()


async def warmed(make: Make) -> None:
    async with StampedeGuard.from_url("memory://") as guard, make() as leases:

        @guard.locked_cache(ttl=60)
        async def report() -> int:
            return 1

        warmer = leases.warmer(guard, "n", lease_ttl=30)
        warmer.keep(report)
        async with warmer:
            await warmer.election.wait_elected(PATIENCE)
            await report()


async def cancelled_at(step: int, scene: Scene, make: Make) -> bool:
    """Whether the scene had come so far."""
    before = asyncio.all_tasks()
    task = asyncio.create_task(stepped(scene(make), step))
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({task})
    if not task.cancelled():
        await task
    async with asyncio.timeout(PATIENCE):
        while left := asyncio.all_tasks() - before - {task}:
            await asyncio.wait(left)
    async with make() as looking:
        view = await looking.show("n")
        assert view is None or (not view.held and not view.waiting), (step, view)
    return task.cancelled()


@pytest.mark.parametrize("scene", [held, waited_for, replaced, elected, warmed])
async def test_cancelled_at_every_await_nothing_is_left_in_the_store(scene: Scene, make: Make) -> None:
    steps = 0
    while await cancelled_at(steps, scene, make):
        steps += 1
        assert steps < MOST_STEPS
    assert steps >= 3
