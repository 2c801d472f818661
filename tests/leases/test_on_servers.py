"""The faces on real servers: what virtual time and memory cannot show."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from stampede_guard.errors import LeaseLost, LeaseTaken, Misuse
from stampede_guard.leases import Leases, PostgresLeases, RedisLeases
from tests.support.gate import until

PATIENCE = 60.0
WRITES = """CREATE TABLE IF NOT EXISTS writes (
    id bigint GENERATED ALWAYS AS IDENTITY, namespace text, token bigint, label text)"""


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(WRITES)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture(params=["postgres", "redis"])
def client(request: pytest.FixtureRequest, namespace: str) -> Any:
    """Makes `Leases` as another process would."""

    def make(label: str, namespace: str = namespace) -> Leases:
        if request.param == "postgres":
            url = request.getfixturevalue("postgres_url")
            return PostgresLeases.from_url(url, namespace=namespace, label=label)
        url = request.getfixturevalue("valkey_url")
        return RedisLeases.from_url(url, namespace=namespace, label=label, restart="trust")

    return make


async def prepared(*houses: Leases) -> None:
    for leases in houses:
        if isinstance(leases, PostgresLeases):
            await leases.create_schema()


async def test_leases_go_from_one_to_the_other_in_order(client: Any) -> None:
    a, b = client("a"), client("b")
    async with a, b:
        await prepared(a)
        tokens = []
        async with a.hold("n") as lease:
            tokens.append(lease.token)
            await lease.check()
            with pytest.raises(LeaseTaken) as raised:
                async with b.hold("n", wait=0):
                    raise AssertionError
            assert raised.value.holder.startswith("a (")
            view = await b.show("n")
            assert view is not None and view.held and view.token == lease.token
        async with b.hold("n", wait=PATIENCE) as lease:
            tokens.append(lease.token)
            assert [view.name for view in await a.views()] == [lease.name]
        assert tokens == sorted(set(tokens))


async def test_one_is_elected_and_hands_over(client: Any) -> None:
    a, b = client("a"), client("b")
    async with a, b:
        await prepared(a)
        first, second = a.election("e"), b.election("e")
        async with first:
            await first.wait_elected(PATIENCE)
            async with second:
                assert not second.is_leader
                await first.resign(to="b")
                await second.wait_elected(PATIENCE)
                assert not first.is_leader


async def test_a_holder_who_would_renew_in_an_hour_hears_at_once_that_he_is_to_leave(client: Any) -> None:
    a, operator = client("a"), client("operator")
    async with a, operator:
        await prepared(a)

        async def work() -> None:
            async with a.hold("n", 3 * 3_600.0):
                await asyncio.Event().wait()

        holding = asyncio.create_task(work())
        async with asyncio.timeout(PATIENCE):
            while not holding.done():
                # Asked again until his subscription stands.
                if (view := await operator.show("n")) is not None and view.held:
                    await operator.force_release("n", token=view.token, by="eve")
                await asyncio.wait({holding}, timeout=0.1)
        with pytest.raises(LeaseLost, match="eve asked for its release"):
            await holding


SELDOM: dict[str, float] = {"lease_ttl": 600.0, "poll_every": 40.0}
BEFORE_A_POLL = 30.0
"""Who has what he waited for within this was told, for he would not have asked by himself yet."""


async def listening(leases: Leases) -> None:
    backend: Any = leases.part().backend
    if isinstance(leases, PostgresLeases):
        await backend.ear.settled()
        assert backend.ear.hearing
    else:
        await until(lambda: backend.scripts._session.hears_changes(backend.scripts.tag))


async def test_who_waits_is_woken_by_each_release_and_in_order(client: Any) -> None:
    holder, *others = [client(label) for label in "abcd"]
    order: list[str] = []

    async def wait_for_it(leases: Leases) -> None:
        async with leases.hold("n", wait=600, **SELDOM):
            order.append(leases.label)

    async with contextlib.AsyncExitStack() as stack:
        for leases in (holder, *others):
            await stack.enter_async_context(leases)
        await prepared(holder)
        async with holder.hold("n", **SELDOM):
            waiting: list[asyncio.Task[None]] = []
            async with asyncio.timeout(PATIENCE):
                for leases in others:
                    waiting.append(asyncio.create_task(wait_for_it(leases)))
                    while len(view.waiting if (view := await holder.show("n")) else ()) < len(waiting):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    await listening(leases)
        async with asyncio.timeout(BEFORE_A_POLL):
            await asyncio.gather(*waiting)
    assert order == ["b", "c", "d"]


async def test_a_clean_shutdown_hands_over_at_once(client: Any) -> None:
    a, b = client("a"), client("b")
    async with a, b:
        await prepared(a)
        first, second = a.election("e", **SELDOM), b.election("e", **SELDOM)
        first.start()
        token = (await first.wait_elected(PATIENCE)).token
        async with second:
            async with asyncio.timeout(PATIENCE):
                while not (view := await a.show("e")) or not view.waiting:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await listening(b)
            await first.stop()
            assert (await second.wait_elected(BEFORE_A_POLL)).token > token


async def test_what_is_called_alike_in_two_namespaces_is_not_the_same(client: Any, namespace: str) -> None:
    a, b = client("a"), client("b", namespace=f"{namespace}-2")
    async with a, b:
        await prepared(a)
        async with a.hold("n", wait=0) as one, b.hold("n", wait=0) as other:
            assert one.name != other.name
            await one.check()
            assert [view.name for view in await a.views()] == [one.name]
            assert [view.name for view in await b.views()] == [other.name]


async def test_what_many_run_exclusively_runs_one_at_a_time(client: Any) -> None:
    houses = [client(str(number)) for number in range(4)]
    await prepared(*houses)
    at_once = most = runs = 0

    async def work() -> None:
        nonlocal at_once, most, runs
        at_once += 1
        most, runs = max(most, at_once), runs + 1
        await asyncio.sleep(0.005)
        at_once -= 1

    async def one(leases: Leases) -> None:
        for _ in range(5):
            await leases.run_exclusive("n", overlap="queue").run(work)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*map(one, houses))
    assert (most, runs) == (1, 20)
    for leases in houses:
        await leases.aclose()


async def test_a_fenced_transaction_commits_while_the_lease_is_held_and_not_after(
    database: Any, postgres_url: str, namespace: str
) -> None:
    async def write(number: int) -> None:
        await database.execute("INSERT INTO writes (namespace, token) VALUES ($1, $2)", namespace, number)

    async with PostgresLeases.from_url(postgres_url, namespace=namespace, listen=False) as leases:
        await leases.create_schema()
        async with leases.hold("n") as lease:
            async with lease.fenced(database):
                await write(1)
            with pytest.raises(ZeroDivisionError):
                async with lease.fenced(database):
                    await write(2)
                    raise ZeroDivisionError
        with pytest.raises(LeaseLost):
            async with leases.hold("n") as lease:
                # Nobody has told the holder yet: it believes, and the database knows better.
                await leases.force_release("n", token=lease.token, by="eve", now=True)
                assert lease.remaining() > 0
                async with lease.fenced(database):
                    await write(3)
    written = await database.fetch("SELECT token FROM writes WHERE namespace = $1", namespace)
    assert [row["token"] for row in written] == [1]


async def test_only_leases_in_the_same_database_can_fence(valkey_url: str, namespace: str) -> None:
    leases = RedisLeases.from_url(valkey_url, namespace=namespace, restart="trust")
    async with leases, leases.hold("n") as lease:
        with pytest.raises(Misuse, match="PostgresLeases"):
            async with lease.fenced(object()):
                raise AssertionError


class Process:
    """A worker of `tests.leases.worker`, and what it has told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._told = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._told:
                self.lines.append(line.decode().strip())
                self._told.notify_all()

    async def told(self, word: str, *, after: int = 0) -> str:
        """The first line with this first word that is not among the first `after`."""

        def found() -> list[str]:
            return [line for line in self.lines[after:] if line.split()[0] == word]

        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(found)
        return found()[0]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reader


@asynccontextmanager
async def processes(url: str, namespace: str, count: int, lease_ttl: float) -> AsyncIterator[list[Process]]:
    async with PostgresLeases.from_url(url, namespace=namespace) as leases:
        await leases.create_schema()
    started: list[Process] = []
    try:
        for number in range(count):
            started.append(
                Process(
                    await asyncio.create_subprocess_exec(
                        sys.executable, "-m", "tests.leases.worker", url, namespace, f"w{number}", str(lease_ttl),
                        stdout=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"},
                    )
                )
            )  # fmt: skip
            # One after the other, so that the first leads.
            await started[-1].told("stands" if number else "leads")
        yield started
    finally:
        for process in started:
            await process.end()


async def written(database: Any, namespace: str) -> list[int]:
    rows = await database.fetch("SELECT token FROM writes WHERE namespace = $1 ORDER BY id", namespace)
    return [row["token"] for row in rows]


@pytest.mark.alone(reason="the seconds until the next one leads are measured")
async def test_a_killed_leader_is_replaced_within_the_leases_time(
    database: Any, postgres_url: str, namespace: str
) -> None:
    async with processes(postgres_url, namespace, 3, 3.0) as (first, *others):
        killed = time.monotonic()
        first.send(signal.SIGKILL)
        done, pending = await asyncio.wait(
            [asyncio.create_task(other.told("leads")) for other in others],
            return_when=asyncio.FIRST_COMPLETED,
        )
        # T + 1 s, and what a busy machine adds.
        assert time.monotonic() - killed < 3.0 + 1.0 + 5.0
        for task in pending:
            task.cancel()
        assert {task.result().split()[0] for task in done} == {"leads"}


async def test_a_leader_that_stood_still_past_its_deadline_believes_nothing_and_writes_nothing(
    database: Any, postgres_url: str, namespace: str
) -> None:
    async with processes(postgres_url, namespace, 2, 2.0) as (first, second):
        await first.told("believes")
        first.send(signal.SIGSTOP)
        token = int((await second.told("wrote")).split()[1])
        before = len(first.lines)
        first.send(signal.SIGCONT)
        # It looks at its clock; its transaction, if one was under way, does not get through the fence.
        await first.told("doubts", after=before)
        assert not [line for line in first.lines[before:] if line.startswith("believes")]
        tokens = await written(database, namespace)
        assert tokens == sorted(tokens) and tokens[-1] == token
