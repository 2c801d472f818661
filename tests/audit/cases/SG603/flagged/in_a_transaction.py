from django.core.cache import cache
from django.db import transaction


@transaction.atomic
def switch(book):
    book.save()
    cache.delete(f"book:{book.id}")


def rename(page, name):
    with transaction.atomic():
        page.update(name=name)
        cache.delete(f"page:{page.id}")
