from app.caching import get_cache_key, get_cache_config


def describe(name):
    key = get_cache_key(name)
    if key is None:
        key = make(name)
        update_config(key, get_cache_config())
    return key
