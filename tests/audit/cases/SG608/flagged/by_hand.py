import json

import requests
from django.core.cache import cache

from app import redis


def rates():
    found = cache.get("rates")
    if found is None:
        try:
            found = requests.get("https://rates").json()
        except requests.RequestException:
            found = {}
        cache.set("rates", found, 3600)
    return found


def prices():
    known = redis.get("prices")
    if known:
        return json.loads(known)
    result = []
    try:
        result = requests.get("https://prices").json()
    except Exception as error:
        logger.error(error)
    redis.setex("prices", 3600, json.dumps(result))
    return result


def _ask(day):
    try:
        return requests.get(f"https://sums/{day}").json()
    except Exception:
        return {"sum": 0}


def sums(day):
    found = cache.get(f"sums:{day}")
    if not found:
        found = _ask(day)
        cache.set(f"sums:{day}", found, timeout=86400)
    return found
