from django.core.cache import cache


def color():
    known = cache.get("color")
    if known is None:
        known = random_color()
        cache.set("color", known, 60)
    return known
