from django.core.cache import cache


def orders():
    count = cache.get("orders")
    if not count:
        count = count_orders()
        cache.set("orders", count, 60)
    return count
