from django.core.cache import cache


def sync():
    if cache.get("sync-lock"):
        return
    cache.set("sync-lock", True, 300)
    work()
