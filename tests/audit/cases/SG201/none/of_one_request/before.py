from shop.models import Product, Restriction, Update
from shop.requests import per_request_cache


class Restrictions:
    @staticmethod
    def all_ids() -> set[int]:
        key = "all_restrictions:%s" % Update.current()
        found = per_request_cache.get(key, None)
        if found is None:
            found = set(Restriction.objects.values_list("pk", flat=True))
            per_request_cache.set(key, found, 300)
        return found


def sold(shop: int) -> int:
    found = per_request_cache.get(f"sold:{shop}")
    if found is None:
        found = Product.objects.filter(shop=shop, sold=True).count()
        per_request_cache.set(f"sold:{shop}", found, 300)
    return found
