from django.core.cache import cache

from app import local, redis


def counted(key):
    cache.add(key, 0, 60)
    return cache.incr(key)


def under_a_lock(key):
    with redis.lock(key, timeout=5):
        count = cache.get(key, 0)
        cache.set(key, count + 1)


def watched(key):
    with redis.pipeline() as pipe:
        pipe.watch(key)
        count = pipe.get(key)
        pipe.multi()
        pipe.set(key, int(count) + 1)
        pipe.execute()


def filled(key):
    found = cache.get(key)
    if found is None:
        found = compute(key)
        cache.set(key, found, 60)
    return found


def changed(key, name):
    names = cache.get(key)
    names.append(name)
    cache.set(key, names, 60)


def filtered(key):
    rows = cache.get(key)
    prune(rows)
    cache.set(key, rows, 60)


def to_another_cache(key):
    found = redis.get(key)
    if found is not None:
        local.cache.set(key, found, 60)
    return found


def to_another_key(key):
    found = cache.get(key)
    cache.set(f"last:{key}", found, 60)


def another_number(key, seconds):
    count = cache.get(key, 0)
    cache.set(key, seconds + 1, 60)
    return count


def to_another_version(key, version):
    found = cache.get(key, version=version)
    if found is not None:
        cache.set(key, found, version=version + 1)
