import asyncio

from fastapi import FastAPI

from app.registry import sync_registry_on_startup


async def lifespan(app: FastAPI):
    task = asyncio.create_task(sync_registry_on_startup())
    yield
    task.cancel()
