import asyncio
import time


class Tools:
    def __init__(self):
        self._lock = asyncio.Lock()
        self._prices = None

    def _is_cache_valid(self):
        return time.time() - self._loaded < 60

    async def _refresh_cache(self):
        async with self._lock:
            if self._is_cache_valid():
                return
            rows = await self.db.fetch_all()
            self._tools_cache = {row.id: row for row in rows}
            self._loaded = time.time()

    async def get(self, tool):
        if not self._is_cache_valid():
            await self._refresh_cache()
        return self._tools_cache.get(tool)

    async def prices(self):
        async with self._lock:
            if self._prices is None or time.time() - self._asked > 60:
                self._prices = await self.client.fetch_prices()
                self._asked = time.time()
        return self._prices

    async def connect(self):
        if self._connection is None:
            self._connection = await open_connection()
        return self._connection
