"""What only the driver can get wrong: the decisions themselves are searched in `tests/core`."""

from __future__ import annotations

import asyncio

from stampede_guard import Policy, StampedeGuard
from stampede_guard.core.scripts import Message
from stampede_guard.core.states import Waiting
from stampede_guard.stores.memory import MemoryStore


async def test_a_refresh_is_not_answered_with_the_value_that_it_is_to_replace() -> None:
    async with StampedeGuard(MemoryStore(), namespace="flight") as guard:
        computed = 0

        @guard.locked_cache(ttl=60)
        async def count() -> int:
            nonlocal computed
            computed += 1
            return computed

        assert await count() == 1
        name, runtime = count.key(), guard.runtime()
        old = await runtime.session.read(name)
        assert old is not None
        # Another process computes already, so the refresh has to wait for its lease.
        await runtime.session.acquire(name, flight="elsewhere", policy=Policy(), newer_than=old.token)
        refreshed = asyncio.create_task(count.refresh())
        async with asyncio.timeout(30):
            while name not in runtime.flights or not isinstance(runtime.flights[name]._state, Waiting):
                await asyncio.sleep(0)
            # 1. The old value's announcement arrives only now. 2. The other process gives up.
            runtime.heard(name, Message("value", old.token, reading=old))
            await runtime.session.release(name, flight="elsewhere")
            assert await refreshed == 2
        assert await count() == 2
