import time

import requests

_CONFIG_CACHE = {}
_PRICES_CACHE = {}
_PRICES_AT = 0.0


def only_answers(tenant):
    if tenant in _CONFIG_CACHE:
        return _CONFIG_CACHE[tenant]
    try:
        found = requests.get(f"https://config/{tenant}").json()
    except requests.RequestException:
        found = None
    if found is not None:
        _CONFIG_CACHE[tenant] = found
    return found


def inside_the_attempt(tenant):
    if tenant in _CONFIG_CACHE:
        return _CONFIG_CACHE[tenant]
    try:
        found = requests.get(f"https://config/{tenant}").json()
        _CONFIG_CACHE[tenant] = found
    except requests.RequestException:
        found = {}
    return found


def answers(tenant):
    if tenant in _CONFIG_CACHE:
        return _CONFIG_CACHE[tenant]
    try:
        found = requests.get(f"https://config/{tenant}").json()
    except ValueError:
        found = {}
    _CONFIG_CACHE[tenant] = found
    return found


async def soon_again(client):
    global _PRICES_CACHE, _PRICES_AT
    try:
        _PRICES_CACHE = await client.get("/prices")
        _PRICES_AT = time.monotonic()
    except Exception:
        _PRICES_CACHE = {}
