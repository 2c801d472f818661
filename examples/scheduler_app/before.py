"""As it stands in many projects: APScheduler in the lifespan, which every worker runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

from examples.scheduler_app.report import EVERY, TERMS, count, nightly_report, standing


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.add_job(nightly_report, "cron", second=f"*/{EVERY}", **TERMS)
    count(scheduler)
    scheduler.start()
    standing()
    yield
    scheduler.shutdown()


app = FastAPI(lifespan=lifespan)
