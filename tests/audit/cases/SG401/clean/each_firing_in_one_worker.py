from contextlib import asynccontextmanager

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

from shop.leases import jobs
from stampede_guard.jobs.apscheduler.apscheduler3 import SlotExecutor

scheduler = AsyncIOScheduler(executors={"default": SlotExecutor(jobs)})


@asynccontextmanager
async def lifespan(app: FastAPI):
    scheduler.start()
    yield
