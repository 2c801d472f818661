from django.core.cache import cache

from shop.models import Node


def name_of(domain):
    key = f"node:{domain}"
    cached = cache.get(key)
    if cached is not None:
        return cached
    name = ""
    found = Node.objects.filter(domain=domain).first()
    if found and found.info:
        name = found.info.get("name") or ""
    cache.set(key, name, 600)
    return name
