from functools import lru_cache

from shop import db


@lru_cache(maxsize=128)
def rates(day):
    return db.execute(day)
