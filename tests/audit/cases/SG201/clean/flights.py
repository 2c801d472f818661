from app import cache


class Prices:
    async def price(self, item):
        value = await cache.get(item)
        if value is not None:
            return value
        if item in self._in_flight:
            return await self._in_flight[item]
        value = await self._start(item)
        await cache.set(item, value)
        return value
