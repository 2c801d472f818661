from django.core.cache import cache
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page


@cache_page(60)
def index(request): ...


class View:
    @method_decorator(cache_page(60 * 15))
    def get(self, request): ...


def stats():
    return cache.get_or_set("stats", compute_stats, 60)
