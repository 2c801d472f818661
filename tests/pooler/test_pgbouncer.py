"""Leases in PostgreSQL through PgBouncer in transaction mode: `make test-pgbouncer`, where there is a pgbouncer.

Two connections to the server for all clients, so that hardly any two statements of a client run on the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg  # type: ignore[import-untyped]
import pytest

from bench.herd.pgbouncer import PgBouncer
from stampede_guard.errors import StoreRefused
from stampede_guard.leases import LeaseTaken, PostgresLeases
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, Renewed
from stampede_guard.leases.postgres.backend import PostgresBackend
from tests.support.gate import until
from tests.support.leases import LONG, ask, granted

CLIENTS = 6


@pytest.fixture(scope="module")
def pooled_url(postgres_url: str) -> Iterator[str]:
    with PgBouncer(postgres_url, servers=2) as pooler:
        yield pooler.url


@pytest.fixture
def name(namespace: str) -> str:
    return f"{namespace}:lease"


@pytest.fixture
async def backends(pooled_url: str) -> AsyncIterator[list[PostgresBackend]]:
    made = [PostgresBackend.from_url(pooled_url) for _ in range(CLIENTS)]
    await made[0].create_schema()
    yield made
    for backend in made:
        await backend.aclose()


async def test_statements_of_a_client_really_run_on_several_connections(
    backends: list[PostgresBackend], name: str
) -> None:
    seen = set()
    async with asyncio.timeout(LONG):
        while len(seen) < 2:
            asked = [
                backend.room.fetch("SELECT pg_backend_pid(), pg_sleep(0.001)", timeout=LONG)
                for backend in backends
            ]
            rows = await asyncio.gather(*asked)
            seen.add(rows[0][0][0])


async def test_every_step_works_whatever_connection_it_runs_on(
    backends: list[PostgresBackend], name: str
) -> None:
    async def life(number: int) -> None:
        backend, title, holder = backends[number % CLIENTS], f"{name}:{number}", f"holder-{number}"
        for _ in range(10):
            token = await granted(backend, title, holder)
            renewed = await backend.renew(title, holder=holder, token=token, lease_ttl=60, timeout=LONG)
            assert renewed == Renewed()
            assert await backend.check(title, holder=holder, token=token, timeout=LONG)
            assert isinstance(await backend.acquire(ask(title, "other", place=9), timeout=LONG), LeaseHeld)
            assert await backend.release(title, holder=holder, token=token, at_least_for=0, timeout=LONG)
            await backend.leave(title, holder="other", timeout=LONG)

    await asyncio.gather(*[life(number) for number in range(3 * CLIENTS)])


async def test_of_many_who_ask_at_once_one_is_granted(backends: list[PostgresBackend], name: str) -> None:
    for _ in range(10):
        asked = [
            backend.acquire(ask(name, f"{index}"), timeout=LONG) for index, backend in enumerate(backends)
        ]
        answers = await asyncio.gather(*asked)
        assert sum(isinstance(answer, LeaseGranted) for answer in answers) == 1
        for index in range(CLIENTS):
            await backends[index].leave(name, holder=f"{index}", timeout=LONG)


async def test_it_is_not_listened_through_a_pooler_and_waiters_come_in_turn_all_the_same(
    pooled_url: str, backends: list[PostgresBackend], namespace: str
) -> None:
    backends[0].on_freed(lambda _: None)
    assert backends[0].ear is not None
    await backends[0].ear.settled()
    assert backends[0].ear.pooled and not backends[0].ear.hearing
    leases = PostgresLeases.from_url(pooled_url, namespace=namespace)
    async with leases:
        inside = 0

        async def work() -> None:
            nonlocal inside
            async with leases.hold("import", wait=60) as lease:
                inside += 1
                assert inside == 1 and lease.token > 0
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*[work() for _ in range(3)])


async def test_it_is_listened_past_the_pooler_where_that_is_given(
    pooled_url: str, postgres_url: str, backends: list[PostgresBackend], name: str
) -> None:
    listening = PostgresBackend.from_url(pooled_url, listen=postgres_url)
    heard: list[str] = []
    try:
        listening.on_freed(heard.append)
        assert listening.ear is not None
        await listening.ear.settled()
        await until(lambda: listening.ear is not None and listening.ear.hearing)
        await granted(backends[0], name, "a")
        await backends[0].leave(name, holder="a", timeout=LONG)
        await until(lambda: heard)
    finally:
        await listening.aclose()
    assert heard == [name]


async def test_the_fence_holds_in_a_transaction_through_the_pooler(
    pooled_url: str, backends: list[PostgresBackend], name: str
) -> None:
    token = await granted(backends[0], name, "a")
    user = await asyncpg.connect(pooled_url, statement_cache_size=0)
    try:
        async with user.transaction():
            assert await backends[0].fence(user, name, holder="a", token=token)
            asked = asyncio.ensure_future(backends[1].acquire(ask(name, "b"), timeout=LONG))
            done, _ = await asyncio.wait({asked}, timeout=0.2)
            assert not done
        assert isinstance(await asked, LeaseHeld)
    finally:
        await user.close()


async def test_blue_and_green_do_not_both_lead(pooled_url: str, namespace: str) -> None:
    """What pg_try_advisory_lock did through a pooler: both got True."""
    blue = PostgresLeases.from_url(pooled_url, namespace=namespace)
    green = PostgresLeases.from_url(pooled_url, namespace=namespace)
    async with blue, green, blue.hold("leader", wait=0):
        for _ in range(10):
            with pytest.raises(LeaseTaken):
                async with green.hold("leader", wait=0):
                    raise AssertionError("both lead")


async def test_connections_that_prepare_statements_are_told_what_to_write(
    pooled_url: str, backends: list[PostgresBackend], name: str
) -> None:
    """A connection of the user's own: what it has prepared is on another server connection than the next step."""
    made = [
        PostgresBackend.from_connect(lambda: asyncpg.connect(pooled_url), listen=False)
        for _ in range(CLIENTS)
    ]

    async def hold(number: int) -> None:
        while True:
            token = await granted(made[number], f"{name}:{number}", "a")
            await made[number].check(f"{name}:{number}", holder="a", token=token, timeout=LONG)

    try:
        with pytest.raises(StoreRefused, match="statement_cache_size=0"):
            async with asyncio.timeout(LONG):
                await asyncio.gather(*[hold(number) for number in range(CLIENTS)])
    finally:
        for backend in made:
            await backend.aclose()
