import asyncio
from collections import defaultdict


class Payments:
    def __init__(self):
        self.locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def new_block(self, height):
        async with self.locks["new_block"]:
            await confirm(height)

    async def new_fee(self, fee):
        async with self.locks["new_fee"]:
            await store(fee)
