import threading

from app import redis_cache

lock = threading.Lock()


def fields(name, columns: list):
    with lock:
        found = redis_cache.get(f"fields:{name}")
        if found is None:
            found = gateway.details(name, columns)
            redis_cache.set(f"fields:{name}", found)
        return found
