"""These getters give the cache itself, which only looks like an entry."""

import requests

from app.store import get_user_cache, set_page_cache


def size():
    return get_user_cache().items()


def warmed(url):
    kept = get_user_cache("pages").client
    text = requests.get(f"{url}/index.xml").text
    set_page_cache(url, text)
    return kept
