from async_lru import alru_cache

from shop import load_contract


class Contracts:
    def __init__(self):
        self.contract_cache = {}

    @alru_cache(maxsize=32)
    async def contract(self, address):
        if address in self.contract_cache:
            return self.contract_cache[address]
        self.contract_cache[address] = await load_contract(address)
        return self.contract_cache[address]
