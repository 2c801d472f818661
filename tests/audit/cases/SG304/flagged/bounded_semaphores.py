import asyncio
from collections import defaultdict
from functools import partial

PER_HOST = 4

per_host: defaultdict[str, asyncio.BoundedSemaphore] = defaultdict(partial(asyncio.BoundedSemaphore, PER_HOST))


def of_host(name):
    return per_host[name]
