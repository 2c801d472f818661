import json

from redis import Redis

redis = Redis()


def poll(source):
    raw = redis.get("seen")
    seen = set(json.loads(raw)) if raw else set()
    urls = {row["url"] for row in source.search()}
    if seen and urls == seen:
        return
    backfill(urls)
    redis.set("seen", json.dumps(sorted(urls)), ex=86400)
