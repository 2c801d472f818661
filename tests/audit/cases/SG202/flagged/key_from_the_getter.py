from shop import cache, db
from shop.keys import cached_report


def report(day):
    hit, key = cached_report(day)
    if hit is not None:
        return hit
    rows = db.execute(day)
    cache.set(key, rows, 60)
    return rows
