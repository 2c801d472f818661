from django.core.cache import cache
from django.db import transaction


@transaction.atomic
def reject(listing, reason):
    listing.reject(reason)
    cache.delete(f"listing:{listing.pk}")
