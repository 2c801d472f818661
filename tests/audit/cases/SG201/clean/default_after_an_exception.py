"""The exception chooses a default. The new value is fetched and stored in each case."""

import json

import redis

from shop.models import Order

client = redis.Redis()


def changed(day):
    try:
        known = json.loads(client.get(f"orders:{day}"))
    except TypeError:
        known = []
    rows = list(Order.objects.filter(day=day).values())
    client.set(f"orders:{day}", json.dumps(rows))
    return [row for row in rows if row not in known]


def counted(day):
    try:
        number = int(client.get(f"visits:{day}"))
    except (TypeError, ValueError):
        number = 0
    client.set(f"visits:{day}", number + 1)
    return number
