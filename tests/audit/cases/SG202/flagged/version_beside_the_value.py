"""The getter gives a part of the key with the value. It goes back to the setter, and was not computed from."""

from shop.models import Order
from shop.stores import _month_cache_get, _month_cache_put


def orders(shop):
    found, version = _month_cache_get("orders", shop)
    if found is not None:
        return found
    rows = list(Order.objects.filter(shop=shop).values("id", "total"))
    _month_cache_put("orders", shop, version, rows)
    return rows
