from django.core.cache import cache


def keep(value):
    cache.set("permissions:*", value, 60)


def forget():
    cache.delete("permissions:*")
