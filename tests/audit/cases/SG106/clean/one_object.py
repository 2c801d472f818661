from cachetools import LRUCache, cached, cachedmethod


class Config:
    @cachedmethod(lambda self: self._cache)
    def table(self):
        return Table.from_environment(name=self.name)


@cached(LRUCache(1))
def settings() -> Settings:
    found = Settings()
    logger.info("read %s", found.path)
    return found
