from django.core.cache import cache


def cached_call(fn, prefix, seconds=None, *args):
    key = f"{prefix}:{args}"
    found = cache.get(key)
    if found:
        return found, True
    found = fn(*args)
    cache.set(key, found, seconds)
    return found, False


def cache_by_arguments(seconds=None):
    def decorator(fn):
        def wrapper(*args):
            value, _cached = cached_call(fn, fn.__qualname__, seconds, *args)
            return value

        return wrapper

    return decorator


@cache_by_arguments()
def order_statistics(platform):
    rows = Order.objects.values("platform").annotate(total=Sum("amount"))
    return [(row, Order.objects.filter(platform=row["platform"]).count()) for row in rows]
