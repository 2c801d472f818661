import asyncio
from collections import defaultdict


class Payments:
    def __init__(self):
        self.locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def new_block(self, height):
        async with self.locks["new_block"]:
            await confirm(height)

    async def new_payment(self, invoice):
        async with self.locks[invoice]:
            await store(invoice)


class Handed:
    def __init__(self, registry):
        self.locks = defaultdict(asyncio.Lock)
        registry.add(self.locks)

    async def new_block(self, height):
        async with self.locks["new_block"]:
            await confirm(height)
