from app.caching import get_cache_or_run
from app.config import load


def config(development: bool, region: str):
    key = f"config-{region}-dev" if development else f"config-{region}"
    return get_cache_or_run(key, load, development, region)


def rates(key, function, day):
    return get_cache_or_run("rates", function, day)


def orders(day):
    return get_cache_or_run(f"orders-{day}", load, day)


def chosen(development: bool):
    if development:
        key = "config-dev"
    else:
        key = "config"
    return get_cache_or_run(key, load, development)


def by_functions(day):
    def read():
        return cache.get(f"orders-{day}")

    def write(value):
        cache.set(f"orders-{day}", value)

    return get_cache_or_run(read, write, load, day)
