from django.core.cache import cache

from shop import orders


def next_batch():
    last = cache.get("export:last")
    if last is None:
        last = 0
    rows = orders.after(last)
    cache.set("export:last", rows[-1].pk)
    return rows


def next_page():
    start = cache.get("export:page")
    if not start:
        start = 0
    page = orders.fetch_from(start)
    following = page.next
    cache.set("export:page", following)
    return page
