from django.core.cache import cache
from django.db import transaction


def changed(pages):
    for page in pages:
        transaction.on_commit(lambda page=page: cache.delete(f"page:{page}"))
    for page in pages:
        cache.delete(f"page:{page}")
