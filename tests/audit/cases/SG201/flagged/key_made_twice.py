from django.core.cache import cache

from shop import db, normalise


def orders(day):
    key = normalise(day)
    found = cache.get(key)
    if found is not None:
        return found
    key = normalise(day)
    found = db.execute(day)
    cache.set(key, found, 60)
    return found
