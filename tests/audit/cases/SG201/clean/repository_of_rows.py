"""A repository of rows and the settings of a cache are no cache."""

from shop.models import Order


class Orders:
    def __init__(self, order_repository, cache_settings):
        self.order_repository, self.cache_settings = order_repository, cache_settings

    def of(self, day):
        found = self.order_repository.get(day)
        if found is None:
            found = list(Order.objects.filter(day=day))
            self.order_repository.save(day, found)
        return found

    def limit(self, day):
        found = self.cache_settings.get("limit")
        if found is None:
            found = Order.objects.count()
            self.cache_settings.set("limit", found)
        return found
