import time

import requests

_CONFIG_CACHE = {}
_PRICES_CACHE = {}
_PRICES_AT = 0.0


def config(tenant):
    known = _CONFIG_CACHE.get(tenant)
    if known and known["until"] > time.time():
        return known["config"]
    try:
        found = requests.get(f"https://config/{tenant}").json()
    except requests.RequestException:
        logger.warning("no config")
        found = {"blocks": False}
    _CONFIG_CACHE[tenant] = {"config": found, "until": time.time() + 300}
    return found


async def refresh(client):
    global _PRICES_CACHE, _PRICES_AT
    try:
        _PRICES_CACHE = await client.get("/prices")
    except Exception as error:
        logger.warning("no prices: %s", error)
        _PRICES_CACHE = {}
    _PRICES_AT = time.monotonic()
