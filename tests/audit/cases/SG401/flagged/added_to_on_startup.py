from aiohttp import web
from apscheduler.schedulers.asyncio import AsyncIOScheduler

scheduler = AsyncIOScheduler()


async def begin(application):
    scheduler.start()


def make():
    application = web.Application()
    application.on_startup.append(begin)
    return application
