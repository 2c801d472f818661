from django.core.cache import cache


class Pages:
    def count(self):
        key = f"count:{hash(str(self.rows.query))}"
        found = cache.get(key)
        if found is None:
            found = self.rows.count()
            cache.set(key, found, 3600)
        return found
