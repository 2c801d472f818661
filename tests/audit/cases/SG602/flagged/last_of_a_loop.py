from django.core.cache import cache
from django.db import transaction


def changed(pages):
    for page in pages:
        transaction.on_commit(lambda: cache.delete(f"page:{page}"))
