import asyncio
import threading
from collections import defaultdict

from shop.locks import _elsewhere

_of_threads = defaultdict(threading.Lock)
_by_hand: dict[str, asyncio.Lock] = {}
_looked_at: dict[str, asyncio.Lock] = {}
_handed_out: dict[str, asyncio.Lock] = {}
_named: dict[str, asyncio.Lock] = {}
_stored: dict[str, asyncio.Lock] = {}
_twice: dict[str, asyncio.Lock] = {}
_kept: "dict[str, asyncio.Lock]" = {}


def thread(key):
    with _of_threads[key]:
        work()


async def by_hand(key):
    await _by_hand.setdefault(key, asyncio.Lock()).acquire()


async def looked_at(key):
    async with _looked_at.setdefault(key, asyncio.Lock()):
        print(len(_looked_at))


def handed_out(key):
    return _handed_out.setdefault(key, asyncio.Lock())


async def named(key):
    lock = _named.setdefault(key, asyncio.Lock())
    await lock.acquire()


async def stored(key):
    if key not in _stored:
        _stored[key] = asyncio.Lock()
    async with _stored[key]:
        work()


async def kept(key):
    async with _kept.setdefault(key, asyncio.Lock()):
        work()


async def elsewhere(key):
    async with _elsewhere.setdefault(key, asyncio.Lock()):
        work()


async def twice(key):
    async with _twice.setdefault(key, asyncio.Lock()):
        work()


def anew():
    global _twice
    _twice = {}
