from django.core.cache import cache


def remind(user):
    if cache.get(f"reminded:{user}"):
        return
    send_mail(user)
    cache.set(f"reminded:{user}", True, 86400)
