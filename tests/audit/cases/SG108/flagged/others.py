import diskcache
import joblib
from py_cachify import cached

cache = diskcache.Cache("/tmp/x")
memory = joblib.Memory("/tmp/y")


@cached("key")
def one(): ...


@cache.memoize(expire=60)
def two(): ...


@memory.cache
def three(): ...


@diskcache.memoize_stampede(cache, expire=60)
def four(): ...
