import json

import redis.asyncio
from async_lru import alru_cache

client = redis.asyncio.Redis()


class Accounts:
    @alru_cache(maxsize=2000, ttl=43_200)
    async def settings_of(self, account):
        return json.loads(await client.get(f"account:{account}"))

    async def store(self, account, settings):
        await client.set(f"account:{account}", json.dumps(settings))
        self.settings_of.cache_invalidate(self, account)
