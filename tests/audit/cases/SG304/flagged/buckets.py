import asyncio
from collections import defaultdict
from functools import partial


class Outgoing:
    def __init__(self):
        self.sending = asyncio.Lock()
        self.sent = 0


per_customer = defaultdict(Outgoing)
per_host = defaultdict(partial(asyncio.Semaphore, 4))


async def send(customer, host, parcel):
    async with per_customer[customer].sending, per_host[host]:
        await post(host, parcel)
