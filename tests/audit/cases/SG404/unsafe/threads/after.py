import asyncio

import redis
import requests

client = redis.Redis()


async def count(key: str) -> int:
    return int(await asyncio.to_thread(client.get, key) or 0)


async def alive() -> bool:
    return await asyncio.to_thread(client.ping)


async def rates(url: str) -> object:
    return (await asyncio.to_thread(
        requests.get,
        url,
        timeout=5,  # seconds
    )).json()


async def all_of(keys: list[str]) -> list[object]:
    return [await asyncio.to_thread(client.get, key) for key in keys]
