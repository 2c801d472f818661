import asyncio
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi_utils.tasks import repeat_every

app = FastAPI()


@app.on_event("startup")
@repeat_every(seconds=60)
async def refresh_prices(): ...


async def expire_orders():
    while True:
        await close_old_orders()
        await asyncio.sleep(60)


@asynccontextmanager
async def lifespan(app):
    task = asyncio.create_task(expire_orders())
    yield
    task.cancel()
