from django.core.cache import cache

from app.caches import per_request_cache


def last_update():
    known = per_request_cache.get("last_update")
    if known is not None:
        return known
    found = Update.objects.latest()
    per_request_cache.set("last_update", found, None)
    return found


def color():
    known = cache.get("color")
    if known is None:
        known = random_color()
        cache.set("color", known, 60)
    return known
