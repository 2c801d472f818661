from app.stores import cache_service


async def summary():
    known = cache_service.get_market_summary()
    if known:
        return known
    made = await add_up_markets()
    cache_service.set_market_summary(made)
    return made
