from django.core.cache import cache


def export(shop):
    if cache.get(f"export:{shop}"):
        return
    cache.set(f"export:{shop}", 1, 300)
    try:
        write_export(shop)
    finally:
        cache.delete(f"export:{shop}")
