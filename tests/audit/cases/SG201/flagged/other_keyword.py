from shop import cache, db


def rates(day):
    found = cache.get(day)
    if found is None:
        found = db.execute(day)
        cache.set(day, rates=found, ttl=60)
    return found
