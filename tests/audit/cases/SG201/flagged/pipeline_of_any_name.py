import redis

client = redis.Redis()


def stats(user):
    known = client.hgetall(f"stats:{user}")
    if known:
        return known
    found = query_stats(user)
    with client.pipeline() as p:
        p.hset(f"stats:{user}", mapping=found)
        p.expire(f"stats:{user}", 60)
        p.execute()
    return found
