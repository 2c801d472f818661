import asyncio

_cache = {}
_lock = asyncio.Lock()


async def load(name):
    async with _lock:
        if name not in _cache:
            _cache[name] = await fetch(name)
        return _cache[name]
