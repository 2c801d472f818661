import functools

import requests

from app.core import redis


def account_of(token):
    found = redis.get(f"account:{token}")
    if found is None:
        found = requests.get(f"https://accounts.test/{token}", timeout=5).text
        redis.set(f"account:{token}", found, ex=60)
    return found


def with_cached_account(view):
    @functools.wraps(view)
    def inner(request, *args):
        request.account = account_of(request.token)
        return view(request, *args)

    return inner


@with_cached_account
def sales_statistics(request):
    rows = Order.objects.values("day").annotate(total=Sum("amount"))
    return [(row, Order.objects.filter(day=row["day"]).count()) for row in rows]
