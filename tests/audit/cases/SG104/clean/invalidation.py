from flask_caching import Cache

cache = Cache()


def forget():
    cache.delete_memoized(rates)


def rates(): ...
