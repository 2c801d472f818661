from django.core.cache import cache
from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver


class Report(Model):
    def save(self, *args, **kwargs):
        super().save(*args, **kwargs)
        cache.delete(f"reports:{self.author_id}")


class Twice(Model):
    def save(self, *args, **kwargs):
        cache.delete(f"reports:{self.author_id}")
        super().save(*args, **kwargs)
        cache.delete(f"reports:{self.author_id}")


def rename(page, name):
    with transaction.atomic():
        page.save()
        transaction.on_commit(lambda: cache.delete(f"page:{page.id}"))


def renamed(page):
    with transaction.atomic():
        page.save()
    cache.delete(f"page:{page.id}")


@receiver(post_save, sender=Page)
def changed(sender, instance, **kwargs):
    cache.delete(f"page:{instance.id}")
