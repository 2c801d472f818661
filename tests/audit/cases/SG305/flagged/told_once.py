from django.core.cache import cache

from app.mail import send_limit_reached


def warn_of_the_limit(service, now):
    if service.sent_today >= service.limit:
        key = f"limit-warning:{service.id}"
        if not cache.get(key):
            send_limit_reached(service)
            cache.set(key, now, 86_400)
