from functools import lru_cache

import requests
from aiocache import cached
from flask_caching import Cache

cache = Cache()


@lru_cache
def rates():
    try:
        return requests.get("https://rates").json()
    except requests.RequestException:
        logger.exception("no rates")
        return None


@cache.memoize(300)
def names(day):
    try:
        rows = db.execute(NAMES, day)
    except Exception as error:
        logger.error(error)
        return []
    return [row.name for row in rows]


@cached(ttl=300)
async def prices(client):
    try:
        return await client.get("/prices")
    except (TimeoutError, ValueError):
        pass
    return {}


@lru_cache
def banner(season):
    names = []
    try:
        for row in played(season):
            names.append(row["name"])
    except DatabaseException as error:
        logger.error(error)
    return ["First", "Second"]
