import threading
from app import cache

guard = threading.Lock()


def price(item):
    with guard:
        value = cache.get(item)
    if value is not None:
        return value
    value = ask(item)
    with guard:
        cache.set(item, value)
    return value
