"""The same with another executor: each firing runs in the worker that gets its slot, and in no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

from examples.scheduler_app.report import DATABASE_URL, EVERY, TERMS, count, nightly_report, standing
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.apscheduler.apscheduler3 import SlotExecutor
from stampede_guard.leases import PostgresLeases


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with PostgresLeases.from_url(DATABASE_URL, namespace="after") as leases:
        scheduler = AsyncIOScheduler(executors={"default": SlotExecutor(Jobs(leases))}, timezone=UTC)
        scheduler.add_job(nightly_report, "cron", second=f"*/{EVERY}", **TERMS)
        count(scheduler)
        scheduler.start()
        standing()
        yield
        scheduler.shutdown()


app = FastAPI(lifespan=lifespan)
