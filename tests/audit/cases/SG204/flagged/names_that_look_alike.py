from shop import service


class JobService:
    def __init__(self):
        self._cache = {}

    async def user(self, pk):
        if pk not in self._cache:
            self._cache[pk] = await service.load(pk)
        return self._cache[pk]
