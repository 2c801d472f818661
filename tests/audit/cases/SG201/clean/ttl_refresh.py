from app import cache


def touch(key):
    value = cache.get(key)
    if value is not None:
        cache.set(key, value, 300)
    return value
