import httpx
from django.core.cache import cache


def rates():
    known = cache.get("rates")
    if known:
        return known
    headers = {"Accept": "application/json"}
    answer = httpx.get("https://example.org/rates", headers=headers)
    cache.set("rates", answer.json())
    return answer.json()
