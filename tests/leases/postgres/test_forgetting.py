"""Names that nobody uses any more leave the table of leases by themselves, with jobs and without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg  # type: ignore[import-untyped]
import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs import Jobs
from stampede_guard.leases import PostgresLeases
from stampede_guard.leases.postgres import forgetting
from stampede_guard.leases.postgres.backend import PostgresBackend
from stampede_guard.leases.postgres.forgetting import EACH, PAUSE, Forgetting
from tests.support.leases import LONG, ask, granted

SCHEMA = "forgetting"
NEVER = 10**12
"""New names until a deletion: one that is still under way when the day passes would delete too early."""


@pytest.fixture
async def user(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    await connection.close()


async def names(user: asyncpg.Connection) -> list[str]:
    return [row["name"] for row in await user.fetch(f"SELECT name FROM {SCHEMA}.leases ORDER BY name")]


async def a_day_passes(user: asyncpg.Connection) -> None:
    await user.execute(
        f"UPDATE {SCHEMA}.leases SET deadline = deadline - interval '25 hours', "
        "renewed_at = renewed_at - interval '25 hours', granted_at = granted_at - interval '25 hours'"
    )


async def test_whoever_takes_new_names_deletes_what_was_idle_for_a_day(
    postgres_url: str, user: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "EACH", NEVER)
    monkeypatch.setattr(forgetting, "PAUSE", 0.0)
    backend = PostgresBackend.from_url(postgres_url, schema=SCHEMA)
    await backend.create_schema()
    for number in range(20):
        await granted(backend, f"import:{number:02}", "a")
        await backend.release(f"import:{number:02}", holder="a", token=0, at_least_for=0, timeout=LONG)
    await granted(backend, "lapsed", "a", lease_ttl=0.001)
    # What its own names began is over before they grow old.
    await backend.aclose()
    await a_day_passes(user)
    backend = PostgresBackend.from_url(postgres_url, schema=SCHEMA)
    monkeypatch.setattr(forgetting, "EACH", 1)
    await granted(backend, "import:07", "a")
    assert len(await names(user)) == 21, "it is no new name"
    await granted(backend, "new", "a")
    await backend.aclose()
    assert await names(user) == ["import:07", "new"]


async def test_slots_that_may_overlap_leave_no_names_behind(
    postgres_url: str, user: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "EACH", NEVER)
    monkeypatch.setattr(forgetting, "PAUSE", 0.0)
    leases = PostgresLeases.from_url(postgres_url, schema=SCHEMA, namespace="shop")
    await leases.create_schema()
    jobs = Jobs(leases)

    @jobs.every(3_600, overlap="allow")
    async def tick() -> None: ...

    for _ in range(5):
        assert (await jobs.run_now("tick")).outcome == "completed"
    # It opens a new back end when it is used again.
    await leases.aclose()
    found = await names(user)
    assert len(found) == 5 and all(name.startswith("shop:tick@") for name in found)
    await a_day_passes(user)
    monkeypatch.setattr(forgetting, "EACH", 1)
    await jobs.run_now("tick")
    await leases.aclose()
    left = await names(user)
    assert len(left) == 1 and left[0] not in found


async def test_a_deletion_waits_for_nobody_and_leaves_what_is_in_use(
    postgres_url: str, user: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None but the one that is asked for.
    monkeypatch.setattr(forgetting, "EACH", 1e9)
    backend = PostgresBackend.from_url(postgres_url, schema=SCHEMA)
    await backend.create_schema()
    for name in ("a", "b", "c"):
        await granted(backend, name, "h", lease_ttl=0.001)
    await a_day_passes(user)
    async with user.transaction():
        await user.execute(f"SELECT FROM {SCHEMA}.leases WHERE name = 'b' FOR UPDATE")
        assert await backend.prune("", older_than=86_400, timeout=LONG) == 2
    assert await names(user) == ["b"]
    # Asked for while it was being deleted, a name is made anew.
    async with user.transaction():
        await user.execute(f"DELETE FROM {SCHEMA}.leases WHERE name = 'b'")
        asked = asyncio.create_task(backend.acquire(ask("b", "h"), timeout=LONG))
        await asyncio.sleep(0)
    await asked
    assert await names(user) == ["b"]
    await backend.aclose()


class Pruned:
    def __init__(self) -> None:
        self.times = 0
        self.go_on = asyncio.Event()

    async def __call__(self) -> None:
        self.times += 1
        await self.go_on.wait()


async def test_one_of_a_hundred_new_names_begins_it() -> None:
    pruned, chances = Pruned(), iter([0.5, 1 / EACH, 0.99, 0.0099])
    made = Forgetting(pruned, draw=lambda: next(chances), clock=lambda: 1.0)
    for _ in range(3):
        made.added()
        await asyncio.sleep(0)
        assert pruned.times == 0
    made.added()
    await asyncio.sleep(0)
    assert pruned.times == 1
    pruned.go_on.set()
    await made.aclose()


async def test_it_is_done_once_at_a_time_and_not_too_often() -> None:
    now = 1.0
    pruned = Pruned()
    made = Forgetting(pruned, draw=lambda: 0.0, clock=lambda: now)
    made.added()
    await asyncio.sleep(0)
    now += 3 * PAUSE
    made.added()
    await asyncio.sleep(0)
    assert pruned.times == 1, "it is under way"
    pruned.go_on.set()
    await made.aclose()
    made.added()
    await made.aclose()
    now += PAUSE - 1
    made.added()
    await made.aclose()
    assert pruned.times == 2
    now += 1
    made.added()
    await made.aclose()
    assert pruned.times == 3


async def test_that_it_failed_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise StoreUnavailable("the database cannot be reached")

    made = Forgetting(fails, draw=lambda: 0.0)
    made.added()
    await made.aclose()
    assert "unused lease names could not be deleted: the database cannot be reached" in caplog.text
