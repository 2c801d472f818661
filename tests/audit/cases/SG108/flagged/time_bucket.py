import time
from functools import lru_cache

from shop import db


@lru_cache(maxsize=128)
def rates(day, ttl_hash=None):
    return db.execute(day)


@lru_cache
def prices(day, period):
    return db.execute(day)


def today(day):
    return prices(day, int(time.time() // 300))
