import threading
from threading import RLock

lock = threading.Lock()


async def scripts(redis):
    with lock:
        return await redis.script_load(SOURCE)


class Tokens:
    def __init__(self):
        self._lock = RLock()

    async def token(self):
        with self._lock:
            if self.old():
                async with self.client() as client:
                    self.value = client.value
        return self.value

    async def pages(self):
        with lock:
            return [page async for page in self.read()] or [await self.first()]
