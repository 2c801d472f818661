class WeatherBackend:
    def __init__(self, cache):
        self.cache = cache

    async def get_from_cache(self, key):
        return loads(await self.cache.get(key))

    async def store_in_cache(self, key, value):
        await self.cache.set(key, dumps(value), ttl=300)

    async def forecast(self, city):
        key = self.key_of(city)
        cached = await self.get_from_cache(key)
        if cached is not None:
            return cached
        answer = await self.fetch(city)
        if answer is not None:
            await self.store_in_cache(key, answer)
        return answer
