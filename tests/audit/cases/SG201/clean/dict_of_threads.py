import threading
import time

import requests

_lock = threading.Lock()
_rates_cache = {}
_words_cache = {}
_users_cache = {}


def under_the_lock(currency):
    with _lock:
        hit = _rates_cache.get(currency)
        if hit is not None and hit[0] > time.monotonic():
            return hit[1]
        found = requests.get(f"https://rates/{currency}").json()
        _rates_cache[currency] = (time.monotonic() + 60, found)
        return found


def second_look(currency):
    hit = _rates_cache.get(currency)
    if hit is not None and hit[0] > time.monotonic():
        return hit[1]
    with _lock:
        hit = _rates_cache.get(currency)
        if hit is not None and hit[0] > time.monotonic():
            return hit[1]
        _rates_cache[currency] = (time.monotonic() + 60, requests.get(currency).json())
        return _rates_cache[currency][1]


def without_io(text):
    with _lock:
        hit = _words_cache.get(text)
    if hit is not None:
        return hit
    found = split_into_words(text)
    with _lock:
        _words_cache[text] = found
    return found


def once_for_ever(name):
    if name in _users_cache:
        return _users_cache[name]
    found = requests.get(name).json()
    _users_cache[name] = found
    return found


def of_this_call(names):
    cache = {}
    for name in names:
        if name not in cache:
            cache[name] = (time.time(), requests.get(name).json())
    return cache
