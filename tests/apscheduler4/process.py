"""A process with a scheduler of APScheduler 4 and two schedules, whose runs it writes into a journal.

    python -m tests.apscheduler4.process URL NAMESPACE JOURNAL OFFSET

It begins `OFFSET` seconds after its start, says `begun`, and ends when its standard input does. Each run takes 5 ms.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from apscheduler import AsyncScheduler, current_job
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bench.journal import Journal
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.apscheduler.apscheduler4 import once_per_slot
from stampede_guard.leases import PostgresLeases, RedisLeases
from tests.support.gate import until


async def main(url: str, namespace: str, journal: Journal, offset: float) -> None:
    await asyncio.sleep(offset)
    if url.startswith("postgresql"):
        leases = PostgresLeases.from_url(url, namespace=namespace)
    else:
        leases = RedisLeases.from_url(url, namespace=namespace, restart="trust")
    once = once_per_slot(Jobs(leases), overlap="allow", lease_ttl=6)

    async def tick() -> None:
        job = current_job.get()
        journal.write(str(job.schedule_id), os.getpid(), str(job.original_scheduled_time))
        await asyncio.sleep(0.005)

    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), lambda: over.done() or over.set_result(None))
    async with leases, AsyncScheduler() as scheduler:
        # Neither says when it began, so it began in each process when that was started.
        triggers = {"cron": CronTrigger(second="*", timezone="UTC"), "interval": IntervalTrigger(seconds=1)}
        for name, trigger in triggers.items():
            await scheduler.configure_task(name, func=once(tick), max_running_jobs=None)
            await scheduler.add_schedule(name, trigger, id=name)
        await scheduler.start_in_background()
        print("begun", flush=True)
        await over
        # What has been fired ends well: how a stop breaks off a run is shown elsewhere.
        for name in triggers:
            # Not removed: this alpha's store in memory fails where it is just about to release one that is gone.
            await scheduler.pause_schedule(name)
        await until(lambda: not scheduler._running_jobs)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Journal(Path(sys.argv[3])), float(sys.argv[4])))
