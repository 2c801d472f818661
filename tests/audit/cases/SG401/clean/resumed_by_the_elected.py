from contextlib import asynccontextmanager

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

from shop.leases import leases
from stampede_guard.jobs.apscheduler.leading import leading

scheduler = AsyncIOScheduler()
standing = leases.election("scheduler", on_elected=leading(scheduler))


@asynccontextmanager
async def lifespan(app: FastAPI):
    scheduler.start(paused=True)
    async with leases.lifespan(app):
        yield
