from functools import wraps

from flask import current_app, make_response


def cached_public(view, timeout=60):
    @wraps(view)
    def wrapper(*args, **kwargs):
        cached = current_app.cache.cached(timeout=timeout, query_string=True)
        return make_response(cached(view)(*args, **kwargs))

    return wrapper


def memoize(function, timeout=60):
    @wraps(function)
    def wrapper(*args, **kwargs):
        return current_app.cache.memoize(timeout=timeout)(function)(*args, **kwargs)

    return wrapper
