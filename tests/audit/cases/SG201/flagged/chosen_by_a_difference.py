import redis

client = redis.Redis()


def availability(ids):
    known = client.mget([f"available:{i}" for i in ids])
    missing = [i for i, hit in zip(ids, known) if hit is None]
    for i, found in zip(missing, api.availability(missing)):
        client.set(f"available:{i}", found, ex=60)
    return known


def names(mc, ids):
    known = mc.get_multi([f"name:{i}" for i in ids])
    missing = set(ids) - set(known)
    found = {f"name:{row.pk}": row.name for row in query_names(missing)}
    mc.set_multi(found, 60)
    return known | found
