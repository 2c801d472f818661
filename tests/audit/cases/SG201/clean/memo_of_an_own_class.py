from collections import OrderedDict


class Recent:
    def __init__(self, size):
        self._size = size
        self._kept = OrderedDict()

    def get(self, key):
        return self._kept.get(key)

    def put(self, key, value):
        self._kept[key] = value
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)


class Texts:
    def __init__(self, texts):
        self._texts = texts
        self._cache = Recent(100)

    def say(self, language, name):
        key = f"{language}:{name}"
        said = self._cache.get(key)
        if said:
            return said
        said = walk(self._texts[language], name)
        self._cache.put(key, said)
        return said
