import urllib.request

import redis
import requests
from pymemcache.client.base import Client

client = redis.Redis()
memcached = Client("localhost")


async def page(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read()


async def stream(url):
    return requests.get(url, stream=True)


async def later(keys):
    return (client.get(key) for key in keys)


async def names():
    return list(client.scan_iter("user:*"))


async def shared():
    return memcached.get("rates")


async def deferred():
    return sorted(["a", "b"], key=lambda key: client.get(key))


async def long():
    return client.get(
        """a
        b"""
    )
