from app.caching import get_cache, set_cache


async def search(name):
    hit = await get_cache(f"search:{name}")
    if hit is not None:
        return hit
    rows = await ask_everybody(name)
    await set_cache(f"search:{name}", rows, expiration=5)
    return rows
