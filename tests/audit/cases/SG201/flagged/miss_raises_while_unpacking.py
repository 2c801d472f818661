"""What a miss answers cannot be unpacked, and the exception says so."""

import json

import redis

from shop.models import Order

client = redis.Redis()


def orders(day):
    try:
        return json.loads(client.get(f"orders:{day}"))
    except TypeError:
        rows = list(Order.objects.filter(day=day).values())
        client.set(f"orders:{day}", json.dumps(rows), ex=60)
        return rows


def names(day):
    try:
        found = client.get(f"names:{day}").decode()
    except AttributeError:
        found = ",".join(order.name for order in Order.objects.filter(day=day))
        client.set(f"names:{day}", found, ex=60)
    return found


def totals(day):
    try:
        found = json.loads(client.get(f"totals:{day}"))
    except Exception:
        found = None
    if found is None:
        found = list(Order.objects.filter(day=day).values_list("total"))
        client.set(f"totals:{day}", json.dumps(found), ex=60)
    return found
