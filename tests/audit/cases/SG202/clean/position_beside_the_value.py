"""What the getter gives beside the value decides what is fetched: a feed that is read on, and no fill."""

from shop.feed import fetch_after
from shop.stores import get_cached_feed, set_cached_feed


def read_on(shop):
    rows, position = get_cached_feed(shop)
    if rows and position:
        rows = rows[-100:]
    rows = rows + fetch_after(position)
    set_cached_feed(shop, rows, position)
    return rows
