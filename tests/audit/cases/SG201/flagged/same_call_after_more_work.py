from django.core.cache import cache

from shop import db, page_of


def page(day):
    cached = cache.get(day)
    if cached:
        found = page_of(cached)
    else:
        rows = db.execute(day)
        cache.set(day, rows, 60)
        found = page_of(rows)
    return found


def page_by_its_rows(day):
    rows = cache.get(day)
    if rows:
        found = db.fetch_page(rows)
    else:
        rows = db.fetch_rows(day)
        found = db.fetch_page(rows)
    cache.set(day, rows, 60)
    return found
