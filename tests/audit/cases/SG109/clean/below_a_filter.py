from cache_memoize import cache_memoize
from django import template

register = template.Library()


@register.filter
@cache_memoize(60)
def price(product_id):
    return requests.get(ADDRESS).json()
