class Fences:
    key = "fences"

    async def _read_cached(self):
        raw = await self.redis.get(self.key)
        return loads(raw) if raw else None

    async def renew(self):
        async with self.lock:
            before = await self._read_cached()
            if before is None:
                fences = await self.fetch_fences()
                await self.redis.set(self.key, dumps(fences), ex=3600)

    async def get_fences(self):
        found = await self._read_cached()
        if found is None:
            await self.renew()
            found = await self._read_cached()
        return found
