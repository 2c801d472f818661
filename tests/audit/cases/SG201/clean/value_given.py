from app import redis


def remember(key, value):
    old = redis.get(key)
    if old is None:
        redis.set(key, value)
        return value
    return old
