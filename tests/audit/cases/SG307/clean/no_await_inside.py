import asyncio
import threading

lock = threading.Lock()
turn = asyncio.Lock()


async def counted():
    with lock:
        counts["calls"] += 1
    return await load()


async def loaded():
    async with turn:
        return await load()


def scripts():
    with lock:
        return load()


async def inner():
    with lock:

        async def later():
            await load()

    return later


async def opened(path):
    with open(path) as file:
        await send(file)
