import redis
import requests

client = redis.Redis()


async def count(key: str) -> int:
    return int(client.get(key) or 0)


async def alive() -> bool:
    return client.ping()


async def rates(url: str) -> object:
    return requests.get(
        url,
        timeout=5,  # seconds
    ).json()


async def all_of(keys: list[str]) -> list[object]:
    return [client.get(key) for key in keys]
