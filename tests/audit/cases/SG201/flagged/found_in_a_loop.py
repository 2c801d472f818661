from django.core.cache import cache

from shop.models import Worker


def anybody_fits(order):
    known = cache.get(f"fits:{order.id}")
    if known is not None:
        return bool(known)
    found = False
    for worker in Worker.objects.filter(active=True):
        if worker.fits(order):
            found = True
            break
    cache.set(f"fits:{order.id}", int(found), 60)
    return found
