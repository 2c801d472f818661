import json

from app import redis


def key_of(params):
    told = hash(json.dumps(params, sort_keys=True))
    return "search:" + str(told)


def search(params):
    found = redis.get(key_of(params))
    if found is None:
        found = engine.search(params)
        redis.setex(key_of(params), 60, found)
    return found


def forget(params):
    redis.delete(f"search:{hash(frozenset(params.items()))}")
