import asyncio


class Knowledge:
    def __init__(self, storage):
        self.storage = storage
        self._cache = {}
        self._running_queries = {}

    async def of(self, key):
        while True:
            if key in self._running_queries:
                await self._running_queries[key].wait()
                continue
            known = self._cache.get(key)
            if known is not None:
                return known
            event = asyncio.Event()
            self._running_queries[key] = event
            try:
                found = await self.storage.load(key)
                self._cache[key] = found
                return found
            finally:
                event = self._running_queries.pop(key, None)
                if event:
                    event.set()
