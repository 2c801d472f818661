import asyncio
import weakref

_locks = weakref.WeakValueDictionary()
_pruned = {}


def lock(key):
    return _locks.setdefault(key, asyncio.Lock())


async def fetch(key):
    made = _pruned.setdefault(key, asyncio.Lock())
    async with made:
        value = await load(key)
    _pruned.pop(key, None)
    return value
