import asyncio
from contextlib import asynccontextmanager

from fastapi import FastAPI


@asynccontextmanager
async def lifespan(app: FastAPI):
    async def run_log_rollup():
        while True:
            await roll_up_logs()
            await asyncio.sleep(300)

    task = asyncio.create_task(run_log_rollup())
    yield
    task.cancel()
