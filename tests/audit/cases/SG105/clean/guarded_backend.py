from django.core.cache import cache
from django.views.decorators.cache import cache_page

CACHES = {"default": {"BACKEND": "stampede_guard.integrations.django.Cache", "LOCATION": "redis://localhost"}}


@cache_page(60)
def index(request): ...


def stats():
    return cache.get_or_set("stats", compute_stats, 60)
