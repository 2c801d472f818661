from flask import current_app


def decorator_of(timeout):
    return current_app.cache.cached(timeout=timeout)


def is_cached(key):
    return bool(current_app.cache.cached(key))
