from django.core.cache import cache

from app.books import get_similar_books_uncached


def similar_books(title):
    key = f"similar:{title}"
    found = cache.get(key)
    if found is not None:
        return found
    found = get_similar_books_uncached(title)
    cache.set(key, found, 900)
    return found
