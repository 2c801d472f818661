import time

_rates, _until = None, 0


async def rates(client):
    global _rates, _until
    if _rates is None or time.monotonic() > _until:
        _rates = await client.fetch_rates()
        _until = time.monotonic() + 60
    return _rates
