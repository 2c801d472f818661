import asyncio
from collections import defaultdict
from collections.abc import Hashable

from tests.audit.computing import compute

_locks: dict[Hashable, asyncio.Lock] = {}  # one per report
_by_user = defaultdict(asyncio.Lock)


async def report(key: str) -> int:
    async with _locks.setdefault(key, asyncio.Lock()):
        return await compute(key)


async def user(key: str) -> int:
    lock = _by_user[key]
    async with lock:
        return await compute(key)


async def user_too(key: str) -> int:
    async with _by_user[key.lower()], asyncio.timeout(60):
        return await compute(key)


class Table:
    def __init__(self) -> None:
        self._rows = dict()

    async def row(self, key: str) -> int:
        lock = self._rows.setdefault(key, asyncio.Lock())
        async with lock:
            return await compute(key)


table = Table()
