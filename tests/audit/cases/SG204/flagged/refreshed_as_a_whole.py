import time


class Tools:
    def _is_cache_valid(self):
        return time.time() - self._loaded < 60

    async def _refresh_cache(self):
        rows = await self.db.fetch_all()
        self._tools_cache = {row.id: row for row in rows}
        self._loaded = time.time()

    async def get(self, tool):
        if not self._is_cache_valid():
            await self._refresh_cache()
        return self._tools_cache.get(tool)
