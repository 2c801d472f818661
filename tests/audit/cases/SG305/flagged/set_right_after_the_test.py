from django.core.cache import cache, caches

from shop.tasks import start_all

local_cache = caches["local"]


def on_ready(sender=None):
    if cache.get("READY", 0) == 1:
        return
    cache.set("READY", 1, 10)
    start_all()


def on_change(key):
    if local_cache.has_key(key):
        return
    local_cache.add(key, None)
    start_all(key)


def quorum(store_cache, me):
    quorum = store_cache.get("shop_quorum")
    if not quorum:
        store_cache.set("shop_quorum", me, 2)
        return None
    return quorum
