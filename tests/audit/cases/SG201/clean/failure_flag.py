from django.core.cache import cache


def plugins():
    found = []
    failed = cache.get("plugins-failed", default=False)
    if not failed:
        found = fetch_plugins()
        if not found:
            cache.set("plugins-failed", True, 300)
    return found
