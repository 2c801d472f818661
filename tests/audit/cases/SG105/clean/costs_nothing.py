import time

from django.core.cache import cache


def since():
    return cache.get_or_set("since", time.time, None)
