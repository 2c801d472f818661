from django.apps import AppConfig
from django.core.cache import cache


class ShopConfig(AppConfig):
    name = "shop"

    def ready(self):
        cache.clear()
