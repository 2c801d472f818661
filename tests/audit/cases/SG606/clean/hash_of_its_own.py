from app import redis
from app.digests import digest as hash


def keep(text, value):
    redis.setex(f"rows:{hash(text)}", 60, value)
