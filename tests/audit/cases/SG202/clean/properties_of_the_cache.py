"""These ask the cache about itself."""

from shop.models import Page
from shop.stores import get_cache_size, get_cache_version, set_cache_size, set_cache_version


def version():
    found = get_cache_version()
    if found is None:
        found = Page.objects.count()
        set_cache_version(found)
    return found


def size():
    found = get_cache_size()
    if found is None:
        found = Page.objects.count()
        set_cache_size(found)
    return found
