from shop import service


class Metas:
    _cache: dict = {}

    def __init__(self, db):
        self.db = db

    async def meta(self, key):
        if key not in self._cache:
            self._cache[key] = await service.load(key)
        return self._cache[key]
