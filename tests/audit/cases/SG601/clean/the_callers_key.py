from app import cache



def remember(cache_key, day):
    found = cache.get(cache_key)
    if found is None:
        found = load(day)
        cache.set(cache_key, found, 60)
    return found
