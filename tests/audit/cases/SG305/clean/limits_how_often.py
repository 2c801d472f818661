from django.core.cache import cache


def greet(user):
    if cache.get(f"greeted:{user}"):
        return
    if not send(user):
        return
    cache.set(f"greeted:{user}", 1, 86_400)
    count(user)


def once(key):
    if key in seen:
        return
    seen.add(key)
    send(key)


def added(key):
    if cache.get(key):
        return
    if cache.add(key, 1):
        send(key)
