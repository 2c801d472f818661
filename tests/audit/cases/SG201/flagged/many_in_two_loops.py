async def present(cache, ids):
    found, missed = set(), set()
    for one in ids:
        known = await cache.get(f"exists:{one}")
        if known is None:
            missed.add(one)
        elif known:
            found.add(one)
    rows = await ask_for(missed)
    for one in missed:
        await cache.set(f"exists:{one}", int(one in rows), ttl=60)
    return found | rows
