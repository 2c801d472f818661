from django.core.cache import cache


def orders():
    count = cache.get("orders")
    if count is None:
        count = count_orders()
        cache.set("orders", count, 60)
    return count
