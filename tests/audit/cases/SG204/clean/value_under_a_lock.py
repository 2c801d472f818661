import asyncio

_cached_version = None
_cached_calls = 0
_lock = asyncio.Lock()


async def newest_version(client):
    global _cached_version
    if _cached_version is not None:
        return _cached_version
    async with _lock:
        if _cached_version is None:
            _cached_version = await client.newest()
    return _cached_version


async def count(client):
    global _cached_calls
    if _cached_calls:
        return _cached_calls
    await client.newest()
    _cached_calls = 1
    return 1
