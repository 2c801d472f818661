import threading
import time

import requests
from cachetools import TTLCache

_lock = threading.Lock()
_rates_cache = {}
_events_cache = {"at": 0, "data": None}
_pages = TTLCache(100, 60)


def rates(currency):
    with _lock:
        hit = _rates_cache.get(currency)
        if hit is not None and hit[0] > time.monotonic():
            return hit[1]
    found = requests.get(f"https://rates/{currency}").json()
    with _lock:
        _rates_cache[currency] = (time.monotonic() + 60, found)
    return found


def kept(key, compute):
    with _lock:
        hit = _rates_cache.get(key)
        if hit is not None:
            return hit
    found = compute()
    with _lock:
        _rates_cache[key] = found
    return found


def events():
    now = time.time()
    if _events_cache["data"] is not None and now - _events_cache["at"] < 300:
        return _events_cache["data"]
    data = requests.get("https://events").json()
    _events_cache["data"] = data
    _events_cache["at"] = now
    return data


def page(url):
    if url in _pages:
        return _pages[url]
    text = requests.get(url).text
    _pages[url] = text
    return text
