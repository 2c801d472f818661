from shop import db
from shop.big_redis import big_redis as br
from shop.cache import cache


def metrics(shop):
    found = cache.get_cached_metrics(shop)
    if found is None:
        found = db.execute(shop)
        cache.set_cached_metrics(shop, found)
    return found


def worker(number):
    raw = br.horde_r_get(f"worker_{number}")
    if raw:
        return raw
    found = db.find_worker(number)
    br.horde_r_setex_json(f"worker_{number}", 60, found)
    return found


async def history(key):
    rows = await cache.get_history(key)
    if rows is None:
        rows = await db.fetch_history(key)
        await cache.set_history(rows, key)
    return rows
