import functools

_results_cache = {}


def memoized(function):
    @functools.wraps(function)
    def wrapper(*args):
        if args not in _results_cache:
            _results_cache[args] = function(*args)
        return _results_cache[args]

    return wrapper
