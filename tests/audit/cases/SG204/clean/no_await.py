_cache = {}


async def load(name):
    if name not in _cache:
        _cache[name] = parse(name)
    return _cache[name]
