class Fences:
    key = "fences"

    async def _read_cached(self):
        raw = await self.redis.get(self.key)
        return loads(raw) if raw else None

    async def renew(self):
        fences = await self.fetch_fences()
        if fences is None:
            return False
        before = await self._read_cached()
        log_changes(before, fences)
        await self.redis.set(self.key, dumps(fences), ex=3600)
        return True

    async def get_fences(self):
        found = await self._read_cached()
        if found is None:
            if not await self.renew():
                return None
            found = await self._read_cached()
        return found
