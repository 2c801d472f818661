from django.core.cache import cache


def orders():
    count = cache.get("orders", 0)
    if not count:
        count = count_orders()
        cache.set("orders", count, 60)
    return count
