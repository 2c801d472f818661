from functools import wraps

from django.core.cache import caches


def cache_page_for_all(timeout, cache="default"):
    def inner_decorator(func):
        @wraps(func)
        def inner_function(request, *args, **kwargs):
            cache_key = f"page:{request.path}"
            cache_backend = caches[cache]
            cached_data = cache_backend.get(cache_key)
            if cached_data is not None:
                return cached_data
            response = func(request, *args, **kwargs)
            if response.status_code == 200:
                _cache_response_json(cache_backend, cache_key, timeout, response)
            return response

        return inner_function

    return inner_decorator
