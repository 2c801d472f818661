from django.core.cache import cache

from shop import (
    build,
    check_api_key,
    check_key,
    compare_digest,
    consume_key,
    create_key,
    make_key,
    next_key,
    shop,
    take_key,
    use_key,
    verify_hash,
)


def consumed(request, day):
    value = cache.get(f"consumed:{day}")
    quota = consume_key(request.user)
    if value is not None:
        return value
    value = build(day, quota)
    cache.set(f"consumed:{day}", value, 300)
    return value


def checked(request, day):
    value = cache.get(f"checked:{day}")
    if not check_api_key(request):
        return None
    if value is None:
        value = build(day)
        cache.set(f"checked:{day}", value, 300)
    return value


def rotated(request, day):
    value = cache.get(f"rotated:{day}")
    serial = shop.rotate_keys(request.user)
    if value is None:
        value = build(day, serial)
        cache.set(f"rotated:{day}", value, 300)
    return value


def verified(request, day):
    value = cache.get(f"verified:{day}")
    known = verify_hash(request.password)
    if value is None:
        value = build(day, known)
        cache.set(f"verified:{day}", value, 300)
    return value


def compared(request, day):
    value = cache.get(f"compared:{day}")
    if value is not None and compare_digest(request.digest, shop.digest):
        return value
    value = build(day)
    cache.set(f"compared:{day}", value, 300)
    return value


def not_for_the_get(request, day):
    value = cache.get(f"other:{day}")
    made = make_key(request.user)
    if value is None:
        value = build(day, made)
        cache.set(f"other:{day}", value, 300)
    return value


def taken(day):
    value = cache.get(take_key(day))
    if value is None:
        value = build(day)
        cache.set(take_key(day), value, 300)
    return value


def created(day):
    value = cache.get(create_key(day))
    if value is None:
        value = build(day)
        cache.set(create_key(day), value, 300)
    return value


def used(day):
    value = cache.get(f"{use_key(day)}:{day}")
    if value is None:
        value = build(day)
        cache.set(f"{use_key(day)}:{day}", value, 300)
    return value


def proved(request, day):
    value = cache.get(f"{check_key(request)}:{day}")
    if value is None:
        value = build(day)
        cache.set(f"{check_key(request)}:{day}", value, 300)
    return value


def numbered(day):
    value = cache.get(next_key())
    if value is None:
        value = build(day)
        cache.set(next_key(), value, 300)
    return value


def listed(day):
    value = cache.get(f"listed:{day}")
    known = shop.set(day, True)
    if value is None and known:
        value = build(day)
        cache.set(f"listed:{day}", value, 300)
    return value


def waited_for(day):
    value = cache.get(f"waited:{day}")
    ended = shop.worker.join(5)
    if value is not None:
        return value
    value = build(day)
    cache.set(f"waited:{day}", value, 300)
    return value
