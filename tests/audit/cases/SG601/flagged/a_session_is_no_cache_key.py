from django.core.cache import cache

from app.books import similar_books


def recommended(session_key, limit=10):
    cache_key = f"recommended:{session_key}"
    found = cache.get(cache_key)
    if found is None:
        found = similar_books(session_key, limit=limit)
        cache.set(cache_key, found, 900)
    return found
