from django.core.cache import cache


class Report(Model):
    def save(self, *args, **kwargs):
        cache.delete(f"reports:{self.author_id}")
        super().save(*args, **kwargs)


class Channel(Model):
    def on_update(self):
        cache.delete(f"channels:{self.owner_id}")

    def save(self, *args, **kwargs):
        self.on_update()
        super().save(*args, **kwargs)
