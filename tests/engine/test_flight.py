"""What only the driver can get wrong: the decisions themselves are searched in `tests/core`."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import Policy, StampedeGuard
from stampede_guard.core.scripts import Granted, Message
from stampede_guard.core.states import Waiting
from stampede_guard.errors import StoreRefused
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.values.codec import codec_for
from tests.support.gate import Gate, soon, until


async def test_a_refresh_is_not_answered_with_the_value_that_it_is_to_replace() -> None:
    async with StampedeGuard(MemoryStore(), namespace="flight") as guard:
        computed = 0

        @guard.locked_cache(ttl=60)
        async def count() -> int:
            nonlocal computed
            computed += 1
            return computed

        assert await count() == 1
        name, runtime = count.key(), guard.engine.runtime()
        old = await runtime.session.read(name)
        assert old is not None
        # Another process computes already, so the refresh has to wait for its lease.
        await runtime.session.acquire(name, flight="elsewhere", policy=Policy(), newer_than=old.token)
        refreshed = asyncio.create_task(count.refresh())
        await until(
            lambda: any(isinstance(flight.state.phase, Waiting) for flight in runtime.flights.values())
        )
        # 1. The old value's announcement arrives only now. 2. The other process gives up.
        runtime.heard(name, Message("value", old.token, reading=old))
        await runtime.session.release(name, flight="elsewhere")
        assert await soon(refreshed) == 2
        assert await count() == 2


async def test_a_flight_that_has_handed_out_a_value_takes_nobody_who_has_not_looked() -> None:
    async with StampedeGuard(MemoryStore(), namespace="flight") as guard:
        publishing, asking = Gate(), Gate()
        session = guard.engine.runtime().session
        publish, acquire = session.publish, session.acquire

        async def held_publish(*args: Any, **kwargs: Any) -> bool:
            await publishing.hold()
            return await publish(*args, **kwargs)

        async def held_acquire(*args: Any, **kwargs: Any) -> Any:
            await asking.hold()
            return await acquire(*args, **kwargs)

        session.publish = held_publish  # type: ignore[method-assign]

        @guard.locked_cache(ttl=60)
        async def count() -> int:
            return 1

        first = asyncio.create_task(count())
        await publishing.arrival()
        # Joins after the publication was sent, so its answer does not cover it: it is left over and asks again.
        late = asyncio.create_task(count())
        flight = guard.engine.runtime().flights[count.key()]
        await until(lambda: flight.joined == 2)
        session.acquire = held_acquire  # type: ignore[method-assign]
        publishing.open()
        assert await soon(first) == 1
        await asking.arrival()
        # A newcomer reads, and does not keep the flight in the air.
        assert await soon(count()) == 1
        assert flight.joined == 2
        asking.open()
        assert await soon(late) == 1


async def test_what_was_computed_alone_is_not_served_after_an_invalidation_elsewhere() -> None:
    store = MemoryStore()
    async with StampedeGuard(store, namespace="f") as here, StampedeGuard(store, namespace="f") as there:
        gate = Gate()
        source = "old"

        async def read() -> str:
            seen = source
            if seen == "old":
                await gate.hold()
            return seen

        async def call() -> str:
            return await here.get_or_compute("k", read)

        runtime = here.engine.runtime()
        session: Any = runtime.session
        session.away, session.away_for = True, lambda name: True
        runtime.breaker_changed(away=True)
        early = asyncio.create_task(call())
        await gate.arrival()
        session.away, session.away_for = False, lambda name: False
        runtime.breaker_changed(away=False)
        source = "new"
        assert await there.invalidate("k") == "done"
        flight = next(iter(here.engine.runtime().flights.values()))
        later = asyncio.create_task(call())
        await until(lambda: flight.joined == 2)
        gate.open()
        assert await soon(early) == "old"
        assert await soon(later) == "new"


async def test_a_store_that_takes_no_writes_does_not_make_every_call_compute() -> None:
    async with StampedeGuard(MemoryStore(), namespace="flight") as guard:
        computed = 0

        async def no_writes(*_: Any, **__: Any) -> Any:
            raise StoreRefused("NOREPLICAS Not enough good replicas to write.")

        guard.engine.runtime().session.acquire = no_writes  # type: ignore[method-assign]

        @guard.locked_cache(ttl=60)
        async def count() -> int:
            nonlocal computed
            computed += 1
            return computed

        assert [await count() for _ in range(5)] == [1] * 5


async def test_a_bound_caller_in_a_flight_begun_by_an_unbound_one_takes_its_computation_along() -> None:
    async with StampedeGuard(MemoryStore(), namespace="flight") as guard:
        gate, unbound = Gate(), Gate()
        runtime = guard.engine.runtime()
        await runtime.session.acquire("flight:=k", flight="elsewhere", policy=Policy())
        beginner = asyncio.create_task(guard.get_or_compute("k", unbound.hold))
        await until(lambda: runtime.flights)
        flight = runtime.flights["flight:=k"]
        request = asyncio.create_task(guard.get_or_compute("k", gate.hold, request_bound=True))
        await until(lambda: flight.joined == 2)
        beginner.cancel()
        await asyncio.wait({beginner})
        await runtime.session.release("flight:=k", flight="elsewhere")
        await gate.arrival()
        request.cancel()
        await asyncio.wait({request})
        assert gate.cancelled == 1, "ended with its request"
        # Nobody is left, and what began the flight is bound to nobody: it computes for the next ones.
        unbound.open()


async def test_callers_look_for_themselves_while_their_processs_computation_is_slow() -> None:
    store = MemoryStore()
    policy = Policy(lease_ttl=0.3, poll_interval=0.05, takeover_gap=0.05, wait_timeout=0.1)
    async with (
        StampedeGuard(store, namespace="f", policy=policy) as here,
        StampedeGuard(store, namespace="f") as there,
    ):
        gate = Gate()
        slow = asyncio.create_task(here.get_or_compute("k", gate.hold, wait_timeout=30.0))
        await gate.arrival()
        flight = here.engine.runtime().flights["f:=k"]
        await until(lambda: here.engine.runtime().loop.time() > flight.state.open_until)
        grant = await there.engine.runtime().session.fallback("f:=k", flight="fallback", policy=policy)
        assert isinstance(grant, Granted)
        body = codec_for(Any).encode("from a fallback")
        assert await there.engine.runtime().session.publish(
            "f:=k", flight="fallback", grant=grant, outcome="value", body=body, policy=Policy()
        )
        assert await soon(here.get_or_compute("k", gate.hold, wait_timeout=30.0)) == "from a fallback"
        gate.open()
        await soon(slow)


async def test_stale_hits_ask_once_while_another_process_refreshes() -> None:
    now = 0.0
    store = MemoryStore(clock=lambda: now)
    policy = Policy(ttl=1.0, stale_ttl=1000.0, lease_ttl=60.0, poll_interval=60.0)
    async with StampedeGuard(store, namespace="f", policy=policy, limits=Limits(drain_timeout=0.0)) as guard:

        @guard.locked_cache()
        async def value() -> int:
            return 1

        assert await value() == 1
        now = 2.0
        session = guard.engine.runtime().session
        await session.acquire(value.key(), flight="elsewhere", policy=policy)
        acquire, asked = session.acquire, []

        async def counted(*args: Any, **kwargs: Any) -> Any:
            asked.append(args)
            return await acquire(*args, **kwargs)

        session.acquire = counted  # type: ignore[method-assign]
        for _ in range(20):
            assert await soon(value()) == 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(asked) == 1
