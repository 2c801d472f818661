from shop.core.cache import try_cache_get, try_cache_set


def ranking(db, sort):
    key = "ranking:" + sort
    cached = try_cache_get(key)
    if cached is not None:
        return cached
    rows = db.query(sort).all()
    try_cache_set(key, rows, ttl=60)
    return rows
