_MISS = object()


def _store(cache, key, result, ttl):
    body = dumps(result)
    cache.set(key, body, ttl)
    return body, etag_of(body)


def _lookup(cache, key, request):
    raw = cache.get(key)
    if raw is None:
        return _MISS, ""
    return loads(raw)


def cached(ttl):
    def decorate(function):
        @wraps(function)
        async def wrapper(*args, **kwargs):
            request = kwargs["request"]
            cache = request.app.state.redis_cache
            key = key_of(request)
            body, etag = _lookup(cache, key, request)
            if body is _MISS:
                value = await function(*args, **kwargs)
                _, etag = _store(cache, key, value, ttl)
            else:
                value = body
            return answer(value, etag)

        return wrapper

    return decorate
