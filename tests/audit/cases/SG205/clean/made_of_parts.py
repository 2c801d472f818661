from django.core.cache import cache

from shop.reports import base, build_insights


def insights(shop):
    insights = cache.get(shop)
    if not insights:
        insights = {"shop": shop} | base(shop)
        cache.set(shop, insights, 60)
    return insights
