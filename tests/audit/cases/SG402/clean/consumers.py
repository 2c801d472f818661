import asyncio
from contextlib import asynccontextmanager


async def consume(consumer):
    async for message in consumer:
        await handle(message)


@asynccontextmanager
async def lifespan(app):
    task = asyncio.create_task(consume(app.state.consumer))
    yield
    task.cancel()


def repeat_every(seconds):
    def decorate(function):
        return function

    return decorate
