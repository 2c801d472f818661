from django.core.cache import cache

from app.chain import balance_of


async def staked_value(token):
    cached = cache.get(f"staked:{token}")
    if cached:
        return cached
    asked = balance_of("staking")
    balance = await asked
    total = 0
    for one in balance["tokens"]:
        total += one["amount"] * one["price"]
    result = {"staked": {"total": total}}
    cache.set(f"staked:{token}", result, 300)
    return result
