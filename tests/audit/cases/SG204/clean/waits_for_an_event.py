import asyncio


class Notes:
    def __init__(self):
        self._cache = {}
        self._asking = {}

    async def of(self, room):
        if room in self._cache:
            return self._cache[room]
        while room in self._asking:
            await self._asking[room].wait()
            if room in self._cache:
                return self._cache[room]
        done = asyncio.Event()
        self._asking[room] = done
        try:
            self._cache[room] = await search(room)
            return self._cache[room]
        finally:
            self._asking.pop(room, None)
            done.set()
