import time


class Prices:
    async def all(self):
        if self._prices is None or time.time() - self._asked > 60:
            self._prices = await self.client.fetch_prices()
            self._asked = time.time()
        return self._prices


class Token:
    async def get(self):
        if self._token and time.time() < self._until:
            return self._token
        response = await self.client.post("/token")
        self._token = response["access_token"]
        self._until = time.time() + 3600
        return self._token
