from cachetools import LRUCache

_memo_cache = LRUCache(1000)


class Words:
    def __init__(self):
        self._cache = LRUCache(100)

    def stem(self, word):
        known = self._cache.get(word)
        if known is None:
            known = cut(word)
            self._cache.set(word, known)
        return known


async def parsed(text):
    found = _memo_cache.get(text)
    if found is None:
        found = parse(text)
        _memo_cache.set(text, found)
    return found
