from shop.prices import compute_all
from shop.store import get_cached_prices, set_cached_price


def prices(ids):
    known = get_cached_prices(ids)
    missing = [each for each in ids if each not in known]
    computed = compute_all(missing)
    for each in missing:
        set_cached_price(each, computed[each])
    return [known.get(each, computed.get(each)) for each in ids]
