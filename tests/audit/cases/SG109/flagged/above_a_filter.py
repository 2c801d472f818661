from cache_memoize import cache_memoize
from django import template

register = template.Library()


@cache_memoize(60)
@register.filter
def price(product_id):
    return requests.get(ADDRESS).json()


@cache.memoize(60)
@app.template_filter("money")
def money(product):
    return Rate.objects.filter(product=product).count()
