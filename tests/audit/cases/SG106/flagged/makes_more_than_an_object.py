from cachetools import LRUCache, cached, cachedmethod


@cached(LRUCache(1))
def rates():
    return Rates.from_text(download(ADDRESS))


@cached(LRUCache(9))
def table(name):
    return Table.from_environment(name)
