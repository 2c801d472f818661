"""Schedules from a table that is edited while workers run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from bench.herd.postgres import PostgresServer
from stampede_guard.errors import Misuse, PolicyError, StoreUnavailable
from stampede_guard.jobs import Jobs, Run, table
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.job import Job, Terms
from stampede_guard.jobs.schedules.schedule import Every
from stampede_guard.jobs.table import TABLE_SQL, PostgresRows, Row
from stampede_guard.leases import MemoryLeases
from tests.jobs.fleet import Fleet, virtually


class Edited:
    def __init__(self, *rows: Row) -> None:
        self.rows = list(rows)
        self.noted: list[tuple[int | str, datetime]] = []
        self.broken = False

    async def active(self) -> list[Row]:
        if self.broken:
            raise OSError("gone")
        return list(self.rows)

    async def ran(self, id: int | str, slot: datetime) -> None:
        self.noted.append((id, slot))


def row(id: int, cron: str, **arguments: Any) -> Row:
    return Row(id=id, job="sync", arguments=arguments, cron=cron)


def workers(fleet: Fleet, edited: Edited, count: int = 3) -> list[tuple[datetime, str]]:
    seen: list[tuple[datetime, str]] = []

    async def sync(run: Run, repository: str = "all") -> None:
        seen.append((run.slot, repository))

    for _ in range(count):
        worker = fleet.worker()
        worker.jobs.table({"sync": sync}, rows=edited, poll_every=5, lease_ttl=6)
        worker.start()
    return seen


def test_rows_are_run_once_per_slot_with_their_arguments() -> None:
    async def scenario(fleet: Fleet) -> None:
        edited = Edited(row(1, "* * * * *", repository="a"), row(2, "*/2 * * * *", repository="b"))
        seen = workers(fleet, edited)
        await fleet.until(250)
        assert sorted(repository for _, repository in seen) == ["a"] * 4 + ["b"] * 2
        assert len(seen) == len(set(seen))
        assert sorted(edited.noted) == sorted((1 if name == "a" else 2, slot) for slot, name in seen)

    virtually(scenario)


def test_an_edited_row_is_followed_as_it_is_now() -> None:
    async def scenario(fleet: Fleet) -> None:
        edited = Edited(row(1, "* * * * *", repository="a"))
        seen = workers(fleet, edited)
        await fleet.until(130)
        edited.rows = [row(1, "*/5 * * * *", repository="b")]
        await fleet.until(710)
        assert [repository for _, repository in seen] == ["a", "a", "b", "b"]
        assert [slot.minute for slot, _ in seen] == [1, 2, 5, 10]

    virtually(scenario)


def test_a_row_that_is_switched_off_is_missed_by_nobody() -> None:
    async def scenario(fleet: Fleet) -> None:
        edited = Edited(row(1, "* * * * *"))
        seen = workers(fleet, edited)
        await fleet.until(130)
        edited.rows = []
        await fleet.until(1_000)
        assert len(seen) == 2
        (health,) = await fleet.workers[0].jobs.health()
        assert not health.overdue
        assert len(await fleet.outcomes("sync#1")) == 2

    virtually(scenario)


def test_a_row_that_is_switched_off_while_the_back_end_is_away_is_retired_later() -> None:
    async def scenario(fleet: Fleet) -> None:
        class Away:
            cut = False

            def __getattr__(self, name: str) -> Any:
                if self.cut:
                    raise StoreUnavailable("cut off")
                return getattr(runs_beside(fleet.rows), name)

        away, edited = Away(), Edited(row(1, "* * * * *"))
        worker = fleet.worker(runs=lambda: away)
        ran: list[datetime] = []

        async def sync(run: Run) -> None:
            ran.append(run.slot)

        worker.jobs.table({"sync": sync}, rows=edited, poll_every=5)
        worker.start()
        await fleet.until(62)
        switched_off, edited.rows, away.cut = edited.rows, [], True
        await fleet.until(80)
        away.cut = False
        await fleet.until(90)
        view = await worker.jobs.view("sync#1")
        assert view is not None and view.rhythm == 0
        # And the table is read on.
        edited.rows = switched_off
        await fleet.until(130)
        assert [slot.minute for slot in ran] == [1, 2]

    virtually(scenario)


def test_a_table_that_does_not_answer_is_one_that_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Edited):
        async def active(self) -> list[Row]:
            await asyncio.Event().wait()
            raise AssertionError

    async def scenario(fleet: Fleet) -> None:
        workers(fleet, Silent(), count=1)
        await fleet.until(60)

    virtually(scenario)
    assert "cannot be read" in caplog.text


def test_a_row_that_means_nothing_is_told_once_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> int:
        edited = Edited(row(1, "* * * * *"))
        seen = workers(fleet, edited, count=1)
        await fleet.until(70)
        edited.rows = [row(1, "every minute"), Row(id=2, job="synk", arguments={}, cron="* * * * *")]
        await fleet.until(250)
        return len(seen)

    assert virtually(scenario) == 4
    told = [record.getMessage() for record in caplog.records if "is not followed" in record.getMessage()]
    assert len(told) == 2
    assert "cron='every minute' is not allowed" in told[0]
    assert "there is no job 'synk', only sync" in told[1]


def test_while_the_table_cannot_be_read_what_it_said_stays_in_force(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> int:
        edited = Edited(row(1, "* * * * *"))
        seen = workers(fleet, edited, count=1)
        await fleet.until(70)
        edited.broken = True
        await fleet.until(250)
        return len(seen)

    assert virtually(scenario) == 4
    assert sum("cannot be read" in record.getMessage() for record in caplog.records) == 1


def test_more_rows_than_are_followed_are_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MOST_ROWS", 2)

    async def scenario(fleet: Fleet) -> None:
        edited = Edited(*(row(number, "* * * * *") for number in range(3)))
        workers(fleet, edited, count=1)
        await fleet.until(70)
        assert fleet.workers[0].jobs.names == ["sync#0", "sync#1"]

    virtually(scenario)
    assert sum("more than 2 active rows" in record.getMessage() for record in caplog.records) == 1


def test_arguments_that_the_function_does_not_have_are_a_failed_run() -> None:
    async def scenario(fleet: Fleet) -> None:
        edited = Edited(row(1, "* * * * *", branch="main"))
        workers(fleet, edited)
        await fleet.until(70)
        (run,) = (await fleet.history("sync#1")).values()
        assert run.outcome == "failed"
        assert "unexpected keyword argument 'branch'" in run.error

    virtually(scenario)


def test_mistakes_in_the_program_are_told_at_once() -> None:
    jobs = Jobs(MemoryLeases())
    with pytest.raises(Misuse, match="needs the functions"):
        jobs.table({}, rows=Edited())
    with pytest.raises(Misuse, match=", not both"):
        jobs.table({"sync": print})
    with pytest.raises(Misuse, match="a plain name"):
        jobs.table({"sync": print}, connect=print, table="x; DROP TABLE users")
    with pytest.raises(PolicyError, match="overlap"):
        jobs.table({"sync": print}, rows=Edited(), overlap="never")


@pytest.mark.parametrize("given", ['{"repository": "a"}', b'{"repository": "a"}', {"repository": "a"}])
async def test_arguments_are_read_as_text_and_as_a_codec_of_the_users_gives_them(given: Any) -> None:
    class Connection:
        async def fetch(self, sql: str, *, timeout: float) -> list[dict[str, Any]]:
            return [{"id": 1, "job": "sync", "arguments": given, "cron": "* * * * *", "tz": "UTC"}]

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Connection]:
        yield Connection()

    (found,) = await PostgresRows(connect).active()
    assert found.arguments == {"repository": "a"}


async def test_a_table_of_postgresql_is_read_and_written() -> None:
    with PostgresServer() as server:
        connection = await asyncpg.connect(server.url)
        pool = await asyncpg.create_pool(server.url, min_size=1, max_size=2)
        try:
            await connection.execute(TABLE_SQL)
            await connection.execute(
                """INSERT INTO job_schedules (job, arguments, cron, tz, is_active) VALUES
                ('sync', '{"repository": "a"}', '0 3 * * *', 'Europe/Berlin', true),
                ('sync', '{}', '* * * * *', NULL, true),
                ('sync', '[1]', '* * * * *', NULL, true),
                ('sync', '{}', '* * * * *', NULL, false)"""
            )
            rows = PostgresRows(pool.acquire)
            first, second, third = await rows.active()
            assert (first.cron, first.tz, first.arguments) == (
                "0 3 * * *",
                "Europe/Berlin",
                {"repository": "a"},
            )
            assert (second.tz, second.arguments) == ("UTC", {})
            assert list(third.arguments.values()) == [[1]]

            async with MemoryLeases() as leases:
                jobs = Jobs(leases)
                ran = asyncio.Event()

                async def sync(repository: str = "all") -> None:
                    assert repository == "a"
                    ran.set()

                table = jobs.table({"sync": sync}, connect=pool.acquire)
                await table.look()
                assert jobs.names == ["sync#1", "sync#2", "sync#3"]
                ending = await jobs.run_now("sync#1")
                assert (ending.outcome, ran.is_set()) == ("completed", True)
                slot = (await jobs.history("sync#1"))[0].slot
                last = await connection.fetchval("SELECT last_run_at FROM job_schedules WHERE id = 1")
                assert round(last.timestamp() * 1000) == slot
        finally:
            await connection.close()
            await pool.close()


def two_tables(fleet: Fleet, first: Edited, second: Edited, **prefix: str) -> list[tuple[str, str]]:
    """One worker with two tables. Their rows may have the same ids."""
    seen: list[tuple[str, str]] = []
    worker = fleet.worker()

    async def sync(run: Run, tenant: str = "?") -> None:
        seen.append((run.job.removeprefix("shop:"), tenant))

    async def send(run: Run, tenant: str = "?") -> None:
        seen.append((run.job.removeprefix("shop:"), tenant))

    worker.jobs.table({"sync": sync}, rows=first, poll_every=5)
    worker.jobs.table({"sync": sync, "send": send}, rows=second, poll_every=5, **prefix)
    worker.start()
    return seen


def test_rows_of_two_tables_with_one_id_are_two_jobs() -> None:
    async def scenario(fleet: Fleet) -> None:
        first, second = Edited(row(1, "* * * * *", tenant="a")), Edited(row(1, "* * * * *", tenant="b"))
        seen = two_tables(fleet, first, second, prefix="billing")
        await fleet.until(70)
        assert sorted(seen) == [("sync#1", "a"), ("sync#billing.1", "b")]
        second.rows.clear()
        await fleet.until(190)
        assert sorted(seen[2:]) == [("sync#1", "a"), ("sync#1", "a")]
        assert fleet.workers[0].jobs.names == ["sync#1"]
        assert {health.job: health.overdue for health in await fleet.workers[0].jobs.health()} == {
            "shop:sync#1": False,
            "shop:sync#billing.1": False,
        }

    virtually(scenario)


def test_a_second_table_with_the_same_functions_and_the_same_prefix_is_refused() -> None:
    jobs = Jobs(MemoryLeases())
    jobs.table({"sync": print, "send": print}, rows=Edited())
    with pytest.raises(
        Misuse, match=r"with no prefix have the function 'sync'.*jobs\.table\(\.\.\., prefix="
    ):
        jobs.table({"sync": print}, rows=Edited())
    # Without a common function, no two rows can have one job name.
    jobs.table({"purge": print}, rows=Edited())
    jobs.table({"sync": print}, rows=Edited(), prefix="billing")
    with pytest.raises(Misuse, match="with the prefix 'billing' have the function 'sync'"):
        jobs.table({"sync": print}, rows=Edited(), prefix="billing")


@pytest.mark.parametrize("prefix", ["", "a.b", "a#b", "a b", "x" * 41, 7])
def test_a_prefix_that_would_make_job_names_ambiguous_is_refused(prefix: Any) -> None:
    with pytest.raises(Misuse, match="letters, digits"):
        Jobs(MemoryLeases()).table({"sync": print}, rows=Edited(), prefix=prefix)


def test_a_row_never_takes_nor_removes_a_job_that_is_not_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        edited = Edited(row(1, "* * * * *"), row(2, "* * * * *"))
        worker, seen = fleet.worker(), list[str]()

        async def sync(run: Run) -> None:
            seen.append(f"row {run.job.removeprefix('shop:')}")

        @worker.jobs.every(60, name="sync#1")
        async def own(run: Run) -> None:
            seen.append("declared")

        worker.jobs.table({"sync": sync}, rows=edited, poll_every=5)
        worker.start()
        await fleet.until(130)
        assert sorted(seen) == ["declared"] * 2 + ["row sync#2"] * 2
        edited.rows = []
        await fleet.until(250)
        assert seen[4:] == ["declared"] * 2
        view = await worker.jobs.view("sync#1")
        assert view is not None and view.rhythm > 0
        # When the name is free, the row has it.
        edited.rows = [row(1, "* * * * *")]
        await fleet.until(260)
        await worker.jobs.remove("sync#1")
        await fleet.until(310)
        assert seen[6:] == ["row sync#1"]

    virtually(scenario)
    told = [record.getMessage() for record in caplog.records if "is not followed" in record.getMessage()]
    assert len(told) == 2, "once for each time that the row was there"
    assert "another job with the name 'sync#1'" in told[0]


def test_a_job_that_replaced_a_row_stays_when_the_row_goes() -> None:
    async def scenario(fleet: Fleet) -> None:
        edited = Edited(row(1, "* * * * *"))
        seen = workers(fleet, edited, count=1)
        await fleet.until(70)
        jobs, own = fleet.workers[0].jobs, list[str]()

        async def mine(run: Run) -> None:
            own.append(run.job.removeprefix("shop:"))

        jobs.put(Job("sync#1", Every.of(60), mine, Terms()))
        edited.rows = []
        await fleet.until(190)
        assert (len(seen), own) == (1, ["sync#1"] * 2)
        view = await jobs.view("sync#1")
        assert view is not None and view.rhythm > 0

    virtually(scenario)


def test_of_two_rows_with_one_id_the_first_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        edited = Edited(row(1, "* * * * *", repository="a"), row(1, "* * * * *", repository="b"))
        seen = workers(fleet, edited, count=1)
        await fleet.until(130)
        assert [repository for _, repository in seen] == ["a", "a"]

    virtually(scenario)
    assert (
        sum("another row has the job name 'sync#1'" in record.getMessage() for record in caplog.records) == 1
    )
