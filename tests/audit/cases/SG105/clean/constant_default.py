from django.core.cache import cache
from django.views.decorators.cache import cache_control, never_cache


def visits():
    return cache.get_or_set("visits", 0, 60)


@never_cache
def index(request): ...


@cache_control(max_age=60)
def about(request): ...
