import json
from app import redis


def append(key, event):
    raw = redis.get(key)
    log = json.loads(raw) if raw else []
    log.append(describe(event))
    redis.set(key, json.dumps(log))
    return log
