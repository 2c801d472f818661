"""Filled under a lock, published as a whole, of one call, without a query, or for one key each."""

import threading

from shop.models import Order

_lock = threading.Lock()
_orders_cache = []
_words_cache = {}
_names_cache = {}


def under_a_lock():
    with _lock:
        if not _orders_cache:
            for order in Order.objects.all():
                _orders_cache.append(order)
    return _orders_cache


def as_a_whole():
    global _orders_cache
    if not _orders_cache:
        found = []
        for order in Order.objects.all():
            found.append(order)
        _orders_cache = found
    return _orders_cache


def of_this_call(ids):
    cache = {}
    for one in ids:
        if not cache:
            for order in Order.objects.filter(id=one):
                cache[order.id] = order
    return cache


def without_a_query(words):
    if not _words_cache:
        for word in words:
            _words_cache[word] = len(word)
    return _words_cache


def each_for_itself(ids):
    for one in ids:
        if one not in _names_cache:
            _names_cache[one] = Order.objects.get(id=one).name
    return [_names_cache[one] for one in ids]


def emptied_first():
    if _names_cache:
        _names_cache.clear()
    for order in Order.objects.all():
        _names_cache[order.id] = order.name
