from django.core.cache import cache
from django.db.models.signals import pre_save
from django.dispatch import receiver


@receiver(pre_save, sender=Page)
def changed(sender, instance, **kwargs):
    cache.delete(f"page:{instance.id}")
