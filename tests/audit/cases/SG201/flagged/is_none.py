from django.core.cache import cache


def rates():
    found = cache.get("rates")
    if found is None:
        found = load_rates()
        cache.set("rates", found, 300)
    return found
