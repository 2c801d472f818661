"""A cache behind an interface is a cache, whatever the interface is called."""

from shop.models import Order


class Orders:
    def __init__(self, cache_repository):
        self.cache_repository = cache_repository

    def of(self, day):
        found = self.cache_repository.get(f"orders:{day}")
        if found is None:
            found = list(Order.objects.filter(day=day))
            self.cache_repository.set(f"orders:{day}", found, ttl=60)
        return found
