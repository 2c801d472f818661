from aiohttp import ClientSession, web
from apscheduler.schedulers.asyncio import AsyncIOScheduler


async def scheduling(app: web.Application):
    scheduler = AsyncIOScheduler()
    app["scheduler"] = scheduler
    scheduler.start()
    yield
    scheduler.shutdown()
