from django.core.cache import cache

MISSING = "missing"


def lookup(name):
    found = cache.get(name)
    if found == MISSING:
        return None
    if found is not None:
        return found
    try:
        found = ask_server(name)
    except LookupError:
        cache.set(name, MISSING, 60)
        return None
    cache.set(name, found, 300)
    return found
