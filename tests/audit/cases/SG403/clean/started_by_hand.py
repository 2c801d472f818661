import redis
from django.core.cache import caches
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    def handle(self, **options):
        for key in caches["default"].keys("*"):
            print(key)
