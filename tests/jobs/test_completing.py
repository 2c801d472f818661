"""A slot that is completed in the job's own transaction: both are there, or neither is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from stampede_guard.errors import Misuse
from stampede_guard.jobs import Jobs, Run
from stampede_guard.jobs.messages import Ending
from stampede_guard.leases import MemoryLeases, PostgresLeases


class Shop:
    """Jobs in a database, and a table of the user's own in it."""

    def __init__(self, leases: PostgresLeases, jobs: Jobs, conn: Any, namespace: str) -> None:
        self.leases, self.jobs, self.conn, self.namespace = leases, jobs, conn, namespace

    async def write(self) -> None:
        await self.conn.execute("INSERT INTO effects VALUES ($1)", self.namespace)

    async def written(self) -> int:
        found = await self.conn.fetchval("SELECT count(*) FROM effects WHERE who = $1", self.namespace)
        return int(found)

    async def lose_the_lease(self, run: Run) -> None:
        """And wait for that to be noticed."""
        await self.leases.force_release("sync", token=run.token, by="test", now=True)
        with contextlib.suppress(asyncio.CancelledError):
            await run.lease.check()
        await asyncio.Event().wait()

    async def run(self, body: Callable[[Run], Awaitable[None]], **terms: Any) -> Ending:
        """How it ended, and what the history says, which is to be the same."""

        async def sync(run: Run) -> None:
            await body(run)

        self.jobs.every(3_600, name="sync", **terms)(sync)
        ending = await self.jobs.run_now("sync")
        for run in await self.jobs.history("sync"):
            assert (run.outcome, run.error, run.counters) == (ending.outcome, ending.error, ending.counters)
        return ending


@pytest.fixture
async def shop(postgres_url: str, namespace: str) -> AsyncIterator[Shop]:
    conn = await asyncpg.connect(postgres_url)
    await conn.execute("CREATE TABLE IF NOT EXISTS effects (who text)")
    async with PostgresLeases.from_url(postgres_url, namespace=namespace) as leases:
        await leases.create_schema()
        yield Shop(leases, Jobs(leases, drain_timeout=0), conn, namespace)
    await conn.close()


async def test_what_is_written_is_there_with_the_slots_outcome(shop: Shop) -> None:
    async def body(run: Run) -> None:
        async with run.completing(shop.conn) as conn:
            assert conn is shop.conn
            await shop.write()
            run.report(files=12)
            (going_on,) = await shop.jobs.history("sync")
            assert going_on.outcome == "running"

    ending = await shop.run(body)
    assert (ending.outcome, ending.counters, await shop.written()) == ("completed", {"files": 12}, 1)
    view = await shop.jobs.view("sync")
    assert view is not None and view.last_success_at > 0


async def test_a_slot_that_was_completed_is_not_asked_to_be_finished_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def finish(*args: object, **_: object) -> bool:
        asked.append(args)
        return True

    monkeypatch.setattr(type(shop.jobs.runs()), "finish", finish)

    async def body(run: Run) -> None:
        async with run.completing(shop.conn):
            await shop.write()

    assert ((await shop.run(body)).outcome, asked) == ("completed", [])


async def faulty(shop: Shop, run: Run, what: str, stopping: list[asyncio.Task[None]]) -> None:
    """The body does not get beyond this."""
    if what == "raises":
        raise PermissionError("401")
    if what == "lease":
        await shop.lose_the_lease(run)
    if what == "stop":
        stopping.append(asyncio.create_task(shop.jobs.stop()))
    await asyncio.Event().wait()


@pytest.mark.parametrize("what", ["raises", "time_limit", "stop", "lease"])
async def test_what_comes_after_the_commit_changes_nothing(
    shop: Shop, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    stopping: list[asyncio.Task[None]] = []

    async def body(run: Run) -> None:
        async with run.completing(shop.conn):
            await shop.write()
        await faulty(shop, run, what, stopping)

    ending = await shop.run(body, **({"time_limit": 2.0} if what == "time_limit" else {}))
    await asyncio.gather(*stopping)
    assert (ending.outcome, ending.error, await shop.written()) == ("completed", "", 1)
    assert "completed, but an error followed" in caplog.text


@pytest.mark.parametrize(
    ("what", "outcome", "told"),
    [
        ("raises", "failed", "PermissionError: 401"),
        ("time_limit", "failed", "TimeoutError: time_limit=2 s is over"),
        ("lease", "failed", "LeaseLost: "),
        ("stop", "abandoned", "the worker was stopped"),
    ],
)
async def test_what_comes_before_the_commit_leaves_nothing_written(
    shop: Shop, what: str, outcome: str, told: str
) -> None:
    stopping: list[asyncio.Task[None]] = []

    async def body(run: Run) -> None:
        async with run.completing(shop.conn):
            await shop.write()
            await faulty(shop, run, what, stopping)

    ending = await shop.run(body, **({"time_limit": 2.0} if what == "time_limit" else {}))
    await asyncio.gather(*stopping)
    assert (ending.outcome, await shop.written()) == (outcome, 0)
    assert ending.error.startswith(told)


async def test_a_lease_that_went_to_another_unnoticed_is_found_before_the_commit(shop: Shop) -> None:
    async def body(run: Run) -> None:
        async with run.completing(shop.conn):
            await shop.write()
            await shop.leases.force_release("sync", token=run.token, by="test", now=True)

    ending = await shop.run(body)
    assert (ending.outcome, await shop.written()) == ("failed", 0)
    assert ending.error.startswith("LeaseLost: ")


async def test_a_slot_that_is_another_runs_by_then_is_found_before_the_commit(shop: Shop) -> None:
    async def body(run: Run) -> None:
        async with run.completing(shop.conn):
            await shop.write()
            assert await shop.jobs.forget("sync")

    ending = await shop.run(body)
    assert (ending.outcome, await shop.written()) == ("failed", 0)
    assert "another run has the slot by now" in ending.error


@pytest.mark.parametrize("what", ["answer", "cancelled"])
async def test_a_commit_whose_answer_is_lost_is_asked_about(
    shop: Shop, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    stopping: list[asyncio.Task[None]] = []

    class Torn:
        """Its COMMIT is carried out, and nobody hears of it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(shop.conn, name)

        @contextlib.asynccontextmanager
        async def transaction(self) -> AsyncIterator[None]:
            async with shop.conn.transaction():
                yield
            if what == "answer":
                raise ConnectionResetError("gone")
            stopping.append(asyncio.create_task(shop.jobs.stop()))
            await asyncio.Event().wait()

    async def body(run: Run) -> None:
        async with run.completing(Torn()):
            await shop.write()

    ending = await shop.run(body)
    await asyncio.gather(*stopping)
    assert (ending.outcome, await shop.written()) == ("completed", 1)
    assert "is not stored" not in caplog.text


async def test_without_a_database_it_says_what_to_use() -> None:
    async with MemoryLeases() as leases:
        jobs = Jobs(leases)

        @jobs.every(3_600)
        async def sync(run: Run) -> None:
            async with run.completing(None):
                raise AssertionError

        ending = await jobs.run_now("sync")
    assert (
        ending.error == "Misuse: run.completing(conn) needs the runs in the same database: use PostgresLeases"
    )


async def test_what_is_no_connection_is_refused_by_name(shop: Shop) -> None:
    async def body(run: Run) -> None:
        with pytest.raises(Misuse, match="not a str"):
            async with run.completing("conn"):
                raise AssertionError

    assert (await shop.run(body)).outcome == "completed"
