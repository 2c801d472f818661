from contextlib import asynccontextmanager

from fastapi import FastAPI

from shop.leases import leases
from shop.work import warm_cache


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with leases.hold("warm-up", wait=0, at_least_for=60):
        await warm_cache()
    yield
