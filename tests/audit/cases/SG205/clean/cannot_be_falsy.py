from dataclasses import dataclass

import redis
from django.core.cache import cache
from django.shortcuts import get_object_or_404

client = redis.Redis()


@dataclass
class Totals:
    orders: int


def guarded(day):
    rows = cache.get(day)
    if not rows:
        rows = load_rows(day)
        if rows:
            cache.set(day, rows, 60)
    return rows


def raises_first(day):
    rows = cache.get(day)
    if rows:
        return rows
    rows = list_rows(day)
    if not rows:
        raise LookupError(day)
    cache.set(day, rows, 60)
    return rows


def returns_first(day):
    rows = cache.get(day)
    if rows:
        return rows
    found = list_rows(day)
    if len(found) == 0:
        return []
    cache.set(day, found, 60)
    return found


def literal(day):
    page = cache.get(day)
    if not page:
        page = {"rows": list_rows(day), "day": day}
        cache.set(day, page, 60)
    return page


def an_object(day):
    totals = cache.get(day)
    if not totals:
        totals = Totals(count_rows(day))
        cache.set(day, totals, 60)
    return totals


def made_below(day):
    totals = cache.get(day)
    if not totals:
        totals = _make(day)
        cache.set(day, totals, 60)
    return totals


def _make(day) -> Totals:
    return Totals(count_rows(day))


def record(pk):
    items = cache.get(pk)
    if not items:
        items = get_object_or_404(Items, pk=pk)
        cache.set(pk, items, 60)
    return items


def text_of_a_page(day):
    page = cache.get(day)
    if not page:
        page = f"orders of {count_rows(day)}"
        cache.set(day, page, 60)
    return page


def raw_bytes(day):
    count = client.get(day)
    if not count:
        count = count_rows(day)
        client.set(day, count, ex=60)
    return int(count)
