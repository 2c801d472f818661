import json
from functools import lru_cache

import requests
from aiocache import cached
from django.core.cache import cache
from flask_caching import Cache

from app import redis

flask_cache = Cache()


@lru_cache
def user(name):
    try:
        return User.objects.get(name=name)
    except User.DoesNotExist:
        return None


@lru_cache
def number(text):
    try:
        return int(text)
    except Exception:
        return None


@lru_cache
def version():
    try:
        return requests.get("https://version").json()
    except Exception as error:
        raise Unavailable from error


@flask_cache.memoize(300)
def asked_again():
    try:
        return requests.get("https://version").json()
    except Exception:
        return None


@cached(ttl=300, skip_cache_func=lambda found: not found)
async def skipped(client):
    try:
        return await client.get("/prices")
    except TimeoutError:
        return {}


def tested():
    found = cache.get("rates")
    if found is None:
        try:
            found = requests.get("https://rates").json()
        except Exception:
            found = {}
        if found:
            cache.set("rates", found, 3600)
    return found


def leaves():
    found = cache.get("rates")
    if found is None:
        try:
            found = requests.get("https://rates").json()
        except Exception:
            return {}
        cache.set("rates", found, 3600)
    return found


def left_by_a_test():
    found = cache.get("rates")
    if found is None:
        found = None
        try:
            found = requests.get("https://rates").json()
        except Exception as error:
            logger.error(error)
        if found is None:
            return {}
        cache.set("rates", found, 3600)
    return found


def shortly():
    found = cache.get("rates")
    if found is None:
        try:
            found = requests.get("https://rates").json()
        except Exception:
            found = {}
        cache.set("rates", found, 30)
    return found


def with_another_lifetime():
    found = cache.get("rates")
    if found is None:
        lifetime = 3600
        try:
            found = requests.get("https://rates").json()
        except Exception:
            found, lifetime = {}, 30
        cache.set("rates", found, lifetime)
    return found


def a_miss_again():
    found = cache.get("rates")
    if not found:
        try:
            found = requests.get("https://rates").json()
        except Exception:
            found = {}
        cache.set("rates", found, 3600)
    return found


def in_the_attempt():
    known = redis.get("rates")
    if known:
        return json.loads(known)
    found = {}
    try:
        found = requests.get("https://rates").json()
        redis.setex("rates", 3600, json.dumps(found))
    except Exception as error:
        logger.error(error)
    return found
