"""Processes with a scheduler of APScheduler 4 each, on a Valkey and a PostgreSQL: each tick has one outcome."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stampede_guard.jobs import Jobs
from stampede_guard.jobs.messages import RunView
from stampede_guard.leases import Leases, PostgresLeases, RedisLeases

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 3
APART = 0.3
TICKS = 6
PATIENCE = 120
Process = asyncio.subprocess.Process


@pytest.fixture(params=["valkey", "postgres"])
async def place(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[tuple[Leases, str]]:
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        made: Leases = PostgresLeases.from_url(url, namespace=namespace)
        await made.create_schema()  # type: ignore[attr-defined]
    else:
        url = request.getfixturevalue("valkey_url")
        made = RedisLeases.from_url(url, namespace=namespace, restart="trust")
    async with made:
        yield made, url


async def begun(number: int, *given: str) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.apscheduler4.process", *given, f"{APART * number:.3f}"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await process.stdout.readline() == b"begun\n"
    return process


async def ended(process: Process) -> int:
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


def runs(journal: Path) -> Counter[tuple[str, str]]:
    """How often each schedule's function ran for each scheduled time of some process."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return Counter((line["key"], line["what"]) for line in lines)


async def some_ticks(jobs: Jobs, more: int = TICKS) -> None:
    before = {name: len(await jobs.history(name)) for name in ("cron", "interval")}
    async with asyncio.timeout(PATIENCE):
        while any([len(await jobs.history(name)) < before[name] + more for name in before]):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def slots(history: list[RunView]) -> list[int]:
    assert all(run.slot % 1000 == 0 for run in history)
    return [run.slot // 1000 for run in history[::-1]]


@pytest.mark.parametrize("killed", [False, True])
async def test_each_tick_has_one_outcome(
    place: tuple[Leases, str], namespace: str, tmp_path: Path, killed: bool
) -> None:
    leases, url = place
    jobs, journal = Jobs(leases), tmp_path / "journal"
    processes = [await begun(number, url, namespace, str(journal)) for number in range(PROCESSES)]
    try:
        await some_ticks(jobs)
        if killed:
            processes[0].send_signal(signal.SIGKILL)
            assert await processes[0].wait() == -signal.SIGKILL
            await some_ticks(jobs)
        statuses = [await ended(process) for process in processes[killed:]]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert statuses == [0] * (PROCESSES - killed)
    ran = runs(journal)
    assert set(ran.values()) == {1}
    total = 0
    for name in ("cron", "interval"):
        history = await jobs.history(name, limit=1_000)
        found = slots(history)
        total += len(found)
        # Without a gap: what a process that was killed had taken is `running` still, and nobody runs it again.
        assert found == list(range(found[0], found[0] + len(found)))
        outcomes = Counter(run.outcome for run in history)
        assert outcomes.keys() <= ({"completed", "running"} if killed else {"completed"})
        assert outcomes["running"] <= 1
    assert total - sum(ran.values()) in ((0, 1, 2) if killed else (0,))
