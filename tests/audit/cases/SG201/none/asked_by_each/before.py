import jwt
from django.core.cache import cache

from shop import SECRET, audited, build, check_permission, consume_key


def assigned(request, day) -> str:
    value = cache.get(f"assigned:{day}")
    user = check_permission(request.user)
    if value is not None:
        return value
    value = build(day)
    cache.set(f"assigned:{day}", value, 300)
    return value


def declared(request, day) -> str:
    value = cache.get(f"declared:{day}")
    user: str = check_permission(request.user)
    if value is None:
        value = build(day)
        cache.set(f"declared:{day}", value, 300)
    return value


async def awaited(request, day) -> str:
    value = await cache.aget(f"awaited:{day}")
    user = await check_permission(request.user)
    if value is not None:
        return value
    value = await build(day)
    await cache.aset(f"awaited:{day}", value, 300)
    return value


def signed(token, day) -> str:
    value = cache.get(f"signed:{day}")
    claims = jwt.decode(token, SECRET)
    if value is not None:
        return value
    value = build(day)
    cache.set(f"signed:{day}", value, 300)
    return value


def counted(request, day) -> str:
    value = cache.get(f"counted:{day}")
    request.day = day
    if value is not None:
        return value
    value = build(day)
    cache.set(f"counted:{day}", value, 300)
    return value


def in_the_test(request, day) -> str:
    if (value := cache.get(f"{audited(request)}:{day}")) is not None:
        return value
    value = build(day)
    cache.set(f"{audited(request)}:{day}", value, 300)
    return value


def of_a_quota(request, day) -> str:
    value = cache.get(f"quota:{day}")
    quota = consume_key(request.user)
    if value is not None:
        return value
    value = build(day)
    cache.set(f"quota:{day}", value, 300)
    return value
