from django.core.cache import cache

from shop import service


def recommended(tags):
    found = cache.get(tags)
    if not found:
        found = service.recommend_tags(tags)
        if not found["tags"]:
            found["community"] = "-"
        cache.set(tags, found, 60)
    return found["tags"][:30], found["community"]


def first_of(day):
    rows = cache.get(day)
    if not rows:
        rows = list_rows(day)
        cache.set(day, rows, 60)
    return rows[0]
