import functools
import time

_results_cache = {}


def cached_query(ttl=60):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            key = f"{function.__name__}:{args}:{kwargs}"
            now = time.time()
            if key in _results_cache:
                result, since = _results_cache[key]
                if now - since < ttl:
                    return result
            result = function(*args, **kwargs)
            _results_cache[key] = (result, now)
            return result

        return wrapper

    return decorate
