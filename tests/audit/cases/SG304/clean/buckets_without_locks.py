import asyncio
from collections import defaultdict
from functools import partial

lock = asyncio.Lock()


class Totals:
    def __init__(self):
        self.sent = 0


totals = defaultdict(Totals)
windows = defaultdict(partial(list, (0,)))


async def count(customer):
    async with lock:
        totals[customer].sent += 1
