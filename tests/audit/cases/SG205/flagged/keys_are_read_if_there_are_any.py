from django.core.cache import cache


def first_of(day):
    rows = cache.get(day)
    if not rows:
        rows = list_rows(day)
        cache.set(day, rows, 60)
    return rows[0] if rows else None


def last_of(day):
    rows = cache.get(day)
    if not rows:
        rows = list_rows(day)
        cache.set(day, rows, 60)
    try:
        return rows[-1]
    except IndexError:
        return None


def of_another_name(day, names):
    rows = cache.get(day)
    if not rows:
        rows = list_rows(day)
        cache.set(day, rows, 60)
    if names:
        return rows[0]
    return rows
