from django.core.cache import cache
from django.db import transaction


@transaction.atomic
def look(listing, reason):
    listing.ensure_visible(reason)
    logger.info("looked")
    cache.delete(f"listing:{listing.pk}")
