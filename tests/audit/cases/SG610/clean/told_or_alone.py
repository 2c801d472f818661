from functools import lru_cache

from django.core.cache import cache

_price_cache = {}
_own = {}


@lru_cache
def config():
    return load()


def clear_config():
    config.cache_clear()


def change(redis, name, value):
    Price.objects.filter(name=name).update(value=value)
    _price_cache.pop(name, None)
    redis.publish("prices", name)


def lifespan(app):
    config.cache_clear()


def forget_the_oldest():
    while len(_price_cache) > 100:
        _price_cache.pop(next(iter(_price_cache)))


def saved(order):
    order.save()
    cache.delete(f"order:{order.pk}")
    _own.pop(order.pk, None)


@app.cli.command("reload")
def reload_config():
    config.cache_clear()


if __name__ == "__main__":
    config.cache_clear()
