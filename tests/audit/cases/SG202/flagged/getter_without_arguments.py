from shop import db
from shop.stores import get_cached_rates, set_cached_rates


def shop_rates():
    found = get_cached_rates()
    if found is None:
        found = db.execute("rates")
        set_cached_rates(found)
    return found
