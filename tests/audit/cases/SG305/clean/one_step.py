from django.core.cache import cache


def sync():
    if not cache.add("sync-lock", True, 300):
        return
    work()
