_digest_cache = {}


async def digest(client, key):
    known = _digest_cache.get(key)
    if known is None:
        total = Sum()
        stream = await client.open(key)
        async for chunk in stream:
            total.add(chunk)
        known = total.hex()
        _digest_cache[key] = known
    return known
