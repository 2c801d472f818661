from django.core.cache import cache

from app.db import connection


def chart(pair):
    cached = cache.get(f"chart:{pair}")
    if cached:
        return cached
    rows = connection.execute("SELECT day, price FROM prices").fetchall()
    found = {"pair": pair, "history": []}
    for row in rows:
        found["history"].append({"day": row[0], "price": row[1]})
    cache.set(f"chart:{pair}", found, 300)
    return found
