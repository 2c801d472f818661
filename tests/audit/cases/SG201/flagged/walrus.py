from django.core.cache import cache


def feed(url):
    if entries := cache.get(url):
        return entries
    entries = fetch(url)
    cache.set(url, entries, timeout=60)
    return entries
