import functools

from edx_django_utils.cache import RequestCache


def once_per_request(name):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            cache = RequestCache(name)
            kept = cache.get_cached_response(str(args))
            if kept.is_found:
                return kept.value
            result = function(*args)
            cache.set(str(args), result)
            return result

        return wrapper

    return decorate
