"""Without APScheduler: the schedule stands at the function, and the lifespan is one line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from examples.scheduler_app.report import DATABASE_URL, EVERY, executed, nightly_report, standing
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import PostgresLeases

leases = PostgresLeases.from_url(DATABASE_URL, namespace="jobs")
jobs = Jobs(leases)


@jobs.every(EVERY, coalesce=False)
async def report(run: Run) -> None:
    await nightly_report()
    executed(run.slot)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with jobs.lifespan(app):  # where nothing is to be counted: FastAPI(lifespan=jobs.lifespan)
        standing()
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/ops/jobs", jobs.app(allow=lambda scope: scope["client"][0] == "127.0.0.1"))
