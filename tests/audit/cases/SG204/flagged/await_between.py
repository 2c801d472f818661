_cache = {}


async def load(name):
    if name in _cache:
        return _cache[name]
    value = await fetch(name)
    _cache[name] = value
    return value
