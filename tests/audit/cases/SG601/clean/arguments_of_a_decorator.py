import functools
import hashlib
import inspect

from django.core.cache import cache


def cached(timeout):
    def decorate(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            key = hashlib.sha256(repr(bound.arguments).encode()).hexdigest()
            found = cache.get(key)
            if found is None:
                found = function(*args, **kwargs)
                cache.set(key, found, timeout)
            return found

        return wrapper

    return decorate


def cached_page(timeout):
    def decorate(view):
        @functools.wraps(view)
        def wrapper(request, *args, **kwargs):
            key = f"{request.get_full_path()}"
            found = cache.get(key)
            if found is None:
                found = view(request, *args, **kwargs)
                cache.set(key, found, timeout)
            return found

        return wrapper

    return decorate


def cached_settings(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        parts = [function.__name__]
        for name in kwargs:
            parts.append(f"{name}={kwargs[name]}")
        parts.extend(map(str, args))
        key = ":".join(parts)
        found = cache.get(key)
        if found is None:
            found = function(*args, **kwargs)
            cache.set(key, found, 60)
        return found

    return wrapper
