import functools

from django.core.cache import cache


def cached_method(timeout):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(self, *args, **kwargs):
            key = f"{function.__name__}:{self.pk}:{args}"
            found = cache.get(key)
            if found is None:
                found = function(self, *args, **kwargs)
                cache.set(key, found, timeout)
            return found

        return wrapper

    return decorate
