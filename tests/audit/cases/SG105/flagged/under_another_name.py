from functools import wraps

from django.views.decorators.cache import cache_page as django_cache_page


def cache_page(timeout):
    def decorator(view):
        @wraps(view)
        def inner(request, *args, **kwargs):
            prefix = request.headers.get("Accept", "")
            return django_cache_page(timeout, key_prefix=prefix)(view)(request, *args, **kwargs)

        return inner

    return decorator
