import asyncio
import threading
from collections import defaultdict

_locks = {}
_by_user = defaultdict(threading.Lock)


async def fetch(key):
    async with _locks.setdefault(key, asyncio.Lock()):
        return await load(key)


class Table:
    def __init__(self):
        self._table = {}

    def lock(self, key):
        if key not in self._table:
            self._table[key] = asyncio.Lock()
        return self._table[key]
