"""Something cancels every task of an event loop, as `asyncio.run` does at its end, and a caller goes on all the same.

The library's own tasks are cancelled with the rest. A caller that goes on must still get its value. It must not wait
for a task that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from tests.support.gate import until
from tests.support.guards import Guards
from tests.support.inside import watch_of
from tests.support.listener import PATIENCE
from tests.support.sessions import patient


@pytest.fixture
async def guards(valkey_url: str, namespace: str) -> AsyncIterator[Guards]:
    async with Guards(patient(valkey_url), namespace) as guards:
        yield guards


async def cancel_all_others() -> None:
    """Also those that wait in nobody's name: writers, readers, subscriptions, probes."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def used(guard: StampedeGuard, key: str) -> int:
    async def compute() -> int:
        return 7

    async with asyncio.timeout(PATIENCE):
        await guard.invalidate(key)
        first: int = await guard.get_or_compute(key, compute, ttl=60)
        again: int = await guard.get_or_compute(key, compute, ttl=60)
    assert first == again
    return again


async def test_a_caller_that_goes_on_after_all_tasks_were_cancelled_gets_its_value(guards: Guards) -> None:
    guard = guards.guard()
    assert await used(guard, "a") == 7
    await cancel_all_others()
    assert await used(guard, "a") == 7
    assert await used(guard, "b") == 7


async def test_a_command_that_was_queued_when_all_tasks_were_cancelled_is_sent(guards: Guards) -> None:
    guard = guards.guard()
    runtime = guard.engine.runtime()
    reads = [asyncio.ensure_future(runtime.read(guards.name(f"{number}"))) for number in range(3)]
    # The writer has the commands and has not connected yet.
    await cancel_all_others()
    async with asyncio.timeout(PATIENCE):
        found = await asyncio.gather(*reads, return_exceptions=True)
    assert len(found) == 3
    assert await used(guard, "a") == 7


async def test_a_subscription_that_was_cancelled_is_made_again(guards: Guards) -> None:
    guard = guards.guard(l1_ttl=60)
    assert await used(guard, "a") == 7
    await cancel_all_others()
    assert await used(guard, "a") == 7
    await until(lambda: guard.engine.runtime().session.hears_changes(guards.name("a")))


async def test_a_store_that_returns_is_found_although_its_probe_was_cancelled(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    async with Guards(own_valkey.url, namespace) as guards:
        guard = guards.guard()
        assert await used(guard, "a") == 7
        own_valkey.stop()
        while not guard.engine.runtime().session.away:
            assert await used(guard, "b") == 7
        await cancel_all_others()
        own_valkey.start()
        await until(lambda: not guard.engine.runtime().session.away)
        assert await used(guard, "c") == 7


async def test_a_switch_is_heard_although_its_watch_was_cancelled(guards: Guards) -> None:
    guard = guards.guard()
    assert await used(guard, "a") == 7
    switches = watch_of(guard.engine.runtime())
    before = switches._task
    await cancel_all_others()
    assert await used(guard, "a") == 7
    await until(
        lambda: switches._task is not None and switches._task is not before and not switches._task.done()
    )
