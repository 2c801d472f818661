from django.core.cache import cache

from app.stores import redis, storage


def rename(page, title):
    cache.delete(f"page:{page.id}")
    page.title = title
    page.save()


def replace_thumbnail(upload_of, picture):
    redis.delete(f"thumb:{upload_of.id}", f"thumb:{upload_of.id}:large")
    if picture is None:
        return
    storage.upload_thumbnail(upload_of.id, picture)


class Page:
    def publish(self):
        cache.delete(self.cache_key)
        self.published = True
        self.save()
