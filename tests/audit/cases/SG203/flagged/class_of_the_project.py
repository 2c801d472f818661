import functools

import redis


class RequestCache:
    """Answers to requests, in Redis."""

    def __init__(self):
        self.client = redis.Redis()

    def get(self, key):
        return self.client.get(key)

    def set(self, key, value):
        self.client.set(key, value, ex=60)


def cached(function):
    @functools.wraps(function)
    def wrapper(*args):
        cache = RequestCache()
        kept = cache.get(str(args))
        if kept is not None:
            return kept
        result = function(*args)
        cache.set(str(args), result)
        return result

    return wrapper
