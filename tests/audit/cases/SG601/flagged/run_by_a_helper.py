from app.caching import get_cache_or_run
from app.config import load


def config(development: bool, migrated: bool):
    key = "config-dev" if development else "config"
    return get_cache_or_run(key, load, development, migrated)
