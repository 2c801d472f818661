"""`.decode()` on what a getter gives: the getter gives an entry, and not the cache."""

import requests

from app.store import add_page_cache, get_page_cache


def index(url):
    try:
        text = get_page_cache(url).decode()
    except AttributeError:
        text = None
    if not text:
        text = requests.get(f"{url}/index.xml").text
        add_page_cache(url, text.encode())
    return text


def names(url):
    try:
        return get_page_cache(url).decode().split(",")
    except AttributeError:
        found = ask(url)
        add_page_cache(url, ",".join(found).encode())
        return found
