from django.core.cache import cache


def index(height):
    if cache.get(f"blocks:{height}:lock"):
        return
    cache.set(f"blocks:{height}:lock", True, 60)
    read_block(height)
