from django.core.cache import cache

from tests.audit.cases.SG205.insights import get_insights, get_more_insights


def insights(team):
    known = cache.get(f"insights:{team}")
    if not known:
        known = get_insights(team) | get_more_insights(team)
        cache.set(f"insights:{team}", known, 60)
    return known


def plain_insights(team):
    known = cache.get(f"plain-insights:{team}")
    if not known:
        known = get_insights(team)
        cache.set(f"plain-insights:{team}", known, 60)
    return known
