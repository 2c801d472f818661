import asyncio
import weakref
from collections.abc import Hashable

from tests.audit.computing import compute

_locks: weakref.WeakValueDictionary[Hashable, asyncio.Lock] = weakref.WeakValueDictionary()  # one per report
_by_user = weakref.WeakValueDictionary()


async def report(key: str) -> int:
    async with _locks.setdefault(key, asyncio.Lock()):
        return await compute(key)


async def user(key: str) -> int:
    lock = _by_user.setdefault(key, asyncio.Lock())
    async with lock:
        return await compute(key)


async def user_too(key: str) -> int:
    async with _by_user.setdefault(key.lower(), asyncio.Lock()), asyncio.timeout(60):
        return await compute(key)


class Table:
    def __init__(self) -> None:
        self._rows = weakref.WeakValueDictionary()

    async def row(self, key: str) -> int:
        lock = self._rows.setdefault(key, asyncio.Lock())
        async with lock:
            return await compute(key)


table = Table()
