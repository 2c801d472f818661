from functools import lru_cache

from shop.caching import get_cached, set_cached
from shop.extensions import cache


class Settings:
    @staticmethod
    @lru_cache(maxsize=128)
    def is_enabled(name, default=False):
        found = get_cached(f"feature:{name}")
        if found is None:
            found = load_setting(name, default)
            set_cached(f"feature:{name}", found, timeout=300)
        return found

    @staticmethod
    @lru_cache(maxsize=128)
    def value_of(name):
        found = cache.get(f"setting:{name}")
        if found is None:
            found = load_setting(name)
            cache.set(f"setting:{name}", found, timeout=300)
        return found

    @staticmethod
    def change(name, value):
        store_setting(name, value)
        cache.delete(f"setting:{name}")
        Settings.value_of.cache_clear()
