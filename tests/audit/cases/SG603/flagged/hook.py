from django.db import transaction
from django_lifecycle import BEFORE_DELETE, hook

from app.cache import Cache


class Guard(Model):
    @hook(BEFORE_DELETE)
    def drop_paths(self):
        Cache().delete(base_key=self.paths())


class Publication(Model):
    def delete(self, **kwargs):
        if self.complete:
            Cache().delete(base_key=self.paths())
        with transaction.atomic():
            return super().delete(**kwargs)
