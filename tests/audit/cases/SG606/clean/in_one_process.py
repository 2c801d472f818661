import hashlib

from cachetools import TTLCache

cache = TTLCache(maxsize=100, ttl=60)


class Point:
    def __hash__(self):
        return hash((self.x, self.y))


def of_a_text(text):
    found = cache.get(hash(text))
    if found is None:
        found = cache[hash(text)] = parse(text)
    return found


def of_a_number(redis, number: int, user):
    redis.setex(f"rows:{hash(number)}", 60, rows(number))
    redis.setex(f"rows:{hash((user.id, 7))}", 60, rows(number))


def of_a_digest(redis, text):
    redis.setex(f"rows:{hashlib.sha256(text.encode()).hexdigest()}", 60, rows(text))


def of_a_value(redis, text):
    redis.setex("seed", 60, hash(text))


def shards(redis, text):
    pool = redis.pools[hash(text) % 4]
    return pool
