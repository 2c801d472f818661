from contextlib import asynccontextmanager

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

from stampede_guard.leases import Jobs, PostgresLeases
from stampede_guard.leases.jobs.apscheduler3 import SlotExecutor

jobs = Jobs(PostgresLeases.from_url("postgresql://localhost/shop", namespace="shop"))


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with jobs.lifespan(app):
        scheduler = AsyncIOScheduler(executors={"default": SlotExecutor(jobs)})
        scheduler.start()
        yield
        scheduler.shutdown()
