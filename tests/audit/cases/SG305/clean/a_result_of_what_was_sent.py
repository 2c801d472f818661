from django.core.cache import cache

from app.http import send_request


def rates(day):
    found = cache.get(f"rates:{day}")
    if not found:
        found = send_request("rates", day)
        cache.set(f"rates:{day}", found, 3600)
    return found
