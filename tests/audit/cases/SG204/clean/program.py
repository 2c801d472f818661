import asyncio

from shop import service

_cache = {}


async def load(key):
    if key not in _cache:
        _cache[key] = await service.load(key)
    return _cache[key]


async def main():
    await asyncio.gather(load(1), load(2))


if __name__ == "__main__":
    asyncio.run(main())
