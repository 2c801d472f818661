from django.core.cache import cache


def hit(address):
    count = cache.get(address, 0)
    count += 1
    cache.set(address, count, 60)
    return count > 10
