import time

_keys_cache = None
_keys_cache_time = 0.0


async def signing_keys(force=False):
    global _keys_cache, _keys_cache_time
    if not force and _keys_cache and (time.time() - _keys_cache_time) < 3600:
        return _keys_cache
    _keys_cache = await fetch_keys()
    _keys_cache_time = time.time()
    return _keys_cache


class Blocks:
    def __init__(self, rpc):
        self.rpc = rpc
        self._number_cache = None

    async def number(self):
        now = time.monotonic()
        if self._number_cache is not None and now - self._number_at < 1:
            return self._number_cache
        number = (await self.rpc.request("count"))["count"]
        self._number_cache = number
        self._number_at = now
        return number
