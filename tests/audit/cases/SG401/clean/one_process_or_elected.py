from contextlib import asynccontextmanager

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

scheduler = AsyncIOScheduler()


@asynccontextmanager
async def lifespan(app: FastAPI):
    if await app.state.redis.set("scheduler-leader", "1", nx=True, ex=60):
        scheduler.start()
    yield


if __name__ == "__main__":
    scheduler.start()
