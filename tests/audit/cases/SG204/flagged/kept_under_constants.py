import time

_cache = {"at": 0, "data": None}


async def events():
    if _cache["data"] is not None and time.time() - _cache["at"] < 300:
        return _cache["data"]
    data = await fetch_events()
    _cache["data"] = data
    _cache["at"] = time.time()
    return data
