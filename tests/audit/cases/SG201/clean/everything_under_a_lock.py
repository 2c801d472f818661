from app import cache, redis


def price(item):
    with redis.lock(f"lock:{item}", timeout=10):
        value = cache.get(item)
        if value is None:
            value = ask(item)
            cache.set(item, value)
        return value
