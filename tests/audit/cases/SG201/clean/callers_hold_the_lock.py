import threading
from app import cache

lock = threading.Lock()


def _price(item):
    value = cache.get(item)
    if value is None:
        value = ask(item)
        cache.set(item, value)
    return value


def price(item):
    with lock:
        return _price(item)
