"""A cache of the module is filled one by one: a thread in between sees a half, and calls it the whole."""

import json

from shop.models import Order

MENU_CACHE = []
_names_cache: dict = {}


def menu_items():
    if len(MENU_CACHE) > 0:
        return
    for order in Order.objects.all():
        MENU_CACHE.append({"name": order.name})
    with open("pages.json") as file:
        for page in json.load(file):
            MENU_CACHE.append(page)


def names():
    if not _names_cache:
        for order in Order.objects.values("id", "name"):
            _names_cache[order["id"]] = order["name"]
    return _names_cache


class Pages:
    _cache = {}

    def all(self):
        if not self._cache:
            for page in open("pages.txt"):
                self._cache[page] = len(page)
        return self._cache


_pages_cache = None


def published_while_it_is_empty():
    global _pages_cache
    if _pages_cache is None:
        _pages_cache = {}
        for order in Order.objects.values("id", "name"):
            _pages_cache[order["id"]] = order["name"]
    return _pages_cache
