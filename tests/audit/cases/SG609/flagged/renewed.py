import json

from app import redis


def load(key, lifetime=None):
    blob = redis.get(key)
    if blob is not None:
        if lifetime is not None:
            redis.set(key, blob, ex=lifetime)
        return json.loads(blob)
    return None
