from shop.cache import cache_get, cache_set


async def catalog():
    found = cache_get("catalog")
    if found is not None:
        return found
    rows = db.query(Product).all()
    cache_set("catalog", rows, 3600)
    return rows
