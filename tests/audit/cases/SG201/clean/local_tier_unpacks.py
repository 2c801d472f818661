class Tiers:
    async def get(self, key):
        near = await self.l1_cache.get(key)
        if near is not None:
            return near
        raw = await self.redis.get(key)
        if raw:
            value = self._decompress_data(raw)
            await self.l1_cache.set(key, value)
            return value
        return None
