from shop import cache, db

MISSING = "missing"


def user(pk):
    if cache.get(pk) == MISSING:
        raise LookupError(pk)
    found = db.execute(pk)
    if found is None:
        cache.set(pk, MISSING, 60)
        raise LookupError(pk)
    return found
