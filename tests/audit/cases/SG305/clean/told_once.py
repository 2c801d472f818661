class Reports:
    async def blocked(self, event):
        dedupe_key = self.dedupe_key_of(event)
        if await self.redis.exists(dedupe_key):
            return
        await self.redis.set(dedupe_key, value="1", ex=3600)
        await self.bus.publish(event)
