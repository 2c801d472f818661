"""Real processes, a real PostgreSQL and a real Valkey: a job each second has one outcome per tick."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.herd.postgres import PostgresServer
from bench.journal import Journal
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.messages import RunView
from stampede_guard.leases import Leases, PostgresLeases, RedisLeases

ROOT = Path(__file__).resolve().parents[2]
PODS = 8
TICKS = 30
PATIENCE = 240


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    with PostgresServer() as server:
        yield server.url


@dataclass(frozen=True)
class House:
    """Where the leases are, as pods are told it and as one looks from outside."""

    url: str
    leases: Leases
    journal: Journal


@pytest.fixture
async def houses(
    postgres_url: str, valkey_url: str, namespace: str, tmp_path: Path
) -> AsyncIterator[list[House]]:
    """One on each back end. Their pods do nothing most of the time, so both live through their seconds at once."""
    async with (
        PostgresLeases.from_url(postgres_url, namespace=namespace) as postgres,
        RedisLeases.from_url(valkey_url, namespace=namespace, restart="trust") as valkey,
    ):
        await postgres.create_schema()
        yield [
            House(postgres_url, postgres, Journal(tmp_path / "postgres")),
            House(valkey_url, valkey, Journal(tmp_path / "redis")),
        ]


async def in_each(houses: list[House], play: Callable[[House], Coroutine[None, None, None]]) -> None:
    async def played(client: House) -> None:
        try:
            await play(client)
        except Exception as error:
            error.add_note(f"with leases in {client.url}")
            raise

    async with asyncio.TaskGroup() as plays:
        for client in houses:
            plays.create_task(played(client))


class Pod:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def following(self) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await self.process.stdout.readline() == b"following\n"

    async def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def pods(
    count: int,
    url: str,
    namespace: str,
    journal: Journal,
    *,
    takes: float,
    apart: float,
    more: tuple[str, ...] = (),
) -> AsyncIterator[list[Pod]]:
    started = [
        Pod(
            await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.jobs.pod", url, namespace, str(journal.path)),
                *(f"{apart * number:.3f}", str(takes), *more),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        )
        for number in range(count)
    ]
    try:
        yield started
    finally:
        for pod in started:
            if pod.process.returncode is None:
                pod.process.send_signal(signal.SIGCONT)
                pod.process.kill()
            await pod.process.wait()


async def history_of(jobs: Jobs, *, wanted: int) -> list[RunView]:
    """Oldest first, as soon as so many slots have their outcome."""
    async with asyncio.timeout(PATIENCE):
        while True:
            ended = [run for run in await jobs.history("tick", limit=1_000) if run.outcome != "running"]
            if len(ended) >= wanted:
                return ended[::-1]
            await asyncio.sleep(0.5)


async def test_eight_processes_give_each_tick_of_thirty_seconds_one_outcome(
    houses: list[House], namespace: str
) -> None:
    async def play(client: House) -> None:
        async with pods(PODS, client.url, namespace, client.journal, takes=0.005, apart=0.5 / 7) as started:
            for pod in started:
                await pod.following()
            await history_of(Jobs(client.leases), wanted=TICKS)
            assert [await pod.end() for pod in started] == [0] * PODS
        history = (await Jobs(client.leases).history("tick", limit=1_000))[::-1]
        slots = [run.slot // 1000 for run in history]
        assert slots == list(range(slots[0], slots[0] + len(history))), (
            "no tick without an outcome, none with two"
        )
        assert Counter(run.outcome for run in history) == {"completed": len(history)}
        calls = Counter(int(line.what.split()[0]) for line in client.journal.lines("tick"))
        assert calls == dict.fromkeys(slots, 1)

    await in_each(houses, play)


async def test_a_killed_pods_slots_are_run_again_and_one_that_was_frozen_does_no_harm(
    houses: list[House], namespace: str
) -> None:
    async def play(client: House) -> None:
        journal = client.journal
        async with pods(3, client.url, namespace, journal, takes=1.5, apart=0.1, more=("retry",)) as started:
            killed, frozen, well = started
            for pod in started:
                await pod.following()
            pids = {pod.process.pid for pod in started}
            async with asyncio.timeout(PATIENCE):
                while {line.by for line in journal.lines("tick")} != pids:  # noqa: ASYNC110 - other processes write
                    await asyncio.sleep(0.1)
            killed.process.kill()
            os.kill(frozen.process.pid, signal.SIGSTOP)
            async with asyncio.timeout(PATIENCE):
                while not any(line.what.endswith(" 2") for line in journal.lines("tick")):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            os.kill(frozen.process.pid, signal.SIGCONT)
            assert (await frozen.end(), await well.end()) == (0, 0)
        history = await Jobs(client.leases).history("tick", limit=1_000)
        slots = sorted(run.slot // 1000 for run in history)
        assert slots == list(range(slots[0], slots[0] + len(history)))
        again = [run for run in history if run.attempt > 1]
        assert again
        calls = Counter(tuple(line.what.split()) for line in journal.lines("tick"))
        assert set(calls.values()) == {1}, "each attempt at a slot is called once"

    await in_each(houses, play)
