from django.core.cache import cache
from stampede_guard import fill_lock

from shop.models import Order


class Orders:
    def __init__(self, cache):
        self.cache = cache

    def open(self, shop):
        known = self.cache.get(f"open:{shop.id}")
        if known is not None:
            return known
        with fill_lock("Orders.open", f"open:{shop.id}"):
            known = self.cache.get(f"open:{shop.id}")
            if known is not None:
                return known
            found = load(shop)
            self.cache.set(f"open:{shop.id}", found, 60)
        return found

    def __call__(self, shop):
        known = cache.get(f"called:{shop.id}")
        if known is not None:
            return known
        with fill_lock("Orders.__call__", f"called:{shop.id}"):
            known = cache.get(f"called:{shop.id}")
            if known is not None:
                return known
            found = load(shop)
            cache.set(f"called:{shop.id}", found, 60)
        return found


def changed(shop):
    shop = shop.parent
    known = cache.get(f"changed:{shop.id}")
    if known is not None:
        return known
    with fill_lock("changed", f"changed:{shop.id}"):
        known = cache.get(f"changed:{shop.id}")
        if known is not None:
            return known
        found = load(shop)
        cache.set(f"changed:{shop.id}", found, 60)
    return found


def imported_inside(shop):
    from shop.keys import key_of

    known = cache.get(key_of(shop.id))
    if known is not None:
        return known
    with fill_lock("imported_inside", key_of(shop.id)):
        known = cache.get(key_of(shop.id))
        if known is not None:
            return known
        found = load(shop)
        cache.set(key_of(shop.id), found, 60)
    return found


def not_all_is_stored(shop):
    found = cache.get(f"partly:{shop.id}")
    if found is None:
        with fill_lock("not_all_is_stored", f"partly:{shop.id}"):
            found = cache.get(f"partly:{shop.id}")
            if found is None:
                found = load(shop)
                if not found:
                    return []
                cache.set(f"partly:{shop.id}", found, 60)
    return found


def query(shop):
    found = cache.get(f"query:{shop.id}")
    if found is None:
        with fill_lock("query", f"query:{shop.id}"):
            found = cache.get(f"query:{shop.id}")
            if found is None:
                found = Order.objects.filter(shop=shop).order_by("day")[:10]
                cache.set(f"query:{shop.id}", found, 60)
    return found
