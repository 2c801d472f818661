from flask_caching import Cache

cache = Cache()


@cache.memoize(60)
def rates(): ...


@cache.cached(timeout=60)
def prices(): ...
