from django.core.cache import cache


def open_orders(day):
    found = cache.get(day)
    if not found:
        found = [order.pk for order in load(day)]
        cache.set(day, found, 60)
    return found


def shops_of(day):
    if found := cache.get(day):
        return found
    found = _shops(day)
    cache.set(day, found, 60)
    return found


def _shops(day) -> list[int]:
    return load(day).shops
