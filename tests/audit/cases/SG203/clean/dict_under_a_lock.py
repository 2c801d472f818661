import functools
import threading
import time

_results_cache = {}
_lock = threading.Lock()


def cached_query(function):
    @functools.wraps(function)
    def wrapper(*args):
        with _lock:
            if args in _results_cache and time.time() - _results_cache[args][1] < 60:
                return _results_cache[args][0]
            result = function(*args)
            _results_cache[args] = (result, time.time())
            return result

    return wrapper
