import json

from django.core.cache import cache

from shop import run


def access_token(user):
    token = cache.get("access-token")
    if not token:
        process = run("print-access-token", user=user)
        if process.wait() == 0:
            token = next(process.stdout).decode().strip()
            cache.set("access-token", token, 300)
    return token
