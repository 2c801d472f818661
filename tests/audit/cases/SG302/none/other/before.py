import socket

from django.core.cache import cache
from redis import Redis

redis = Redis()


def release_lock(key):
    redis.delete(f"lock:{key}")


def acquire_lock(key):
    return redis.set(f"lock:{key}", "1", nx=True, ex=30)


def named():
    if redis.set("report-lock", socket.gethostname(), nx=True, ex=30):
        build()
        redis.delete("report-lock")


def of_django():
    if cache.add("report-lock", "1", 30):
        build()
        cache.delete("report-lock")


def renewed():
    if redis.set("report-lock", "1", nx=True, ex=30):
        build()
        redis.expire("report-lock", 30)
        build()
        redis.delete("report-lock")


def perhaps(on):
    if on and redis.set("report-lock", "1", nx=True, ex=30):
        build()
    redis.delete("report-lock")


def beside(on):
    try:
        if on:
            redis.set("report-lock", "1", nx=True, ex=30)
        build()
    finally:
        redis.delete("report-lock")


def before():
    redis.delete("report-lock")
    redis.set("report-lock", "1", nx=True, ex=30)
    build()


def failing(on):
    try:
        redis.set("report-lock", "1", nx=True, ex=30)
        build()
    finally:
        redis.delete("report-lock")


def of_two(other: Redis):
    if redis.set("report-lock", "1", nx=True, ex=30):
        build()
        other.delete("report-lock")


def unknown(redis):
    if redis.set("report-lock", "1", nx=True, ex=30):
        build()
        redis.delete("report-lock")


def in_one_go():
    pipe = redis.pipeline()
    if pipe.set("report-lock", "1", nx=True, ex=30):
        build()
        pipe.delete("report-lock")


def waiting():
    while not redis.set("report-lock", "1", nx=True, ex=30):
        build()
        redis.delete("report-lock")
