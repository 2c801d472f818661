from shop.cache import cache_get, cache_set


async def catalog():
    found = cache_get("catalog")
    if found is not None:
        return found
    payload = Catalog(**build_payload()).model_dump_json()
    cache_set("catalog", payload, 3600)
    return payload
