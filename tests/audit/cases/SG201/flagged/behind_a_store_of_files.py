from django.core.cache import caches

style_cache = caches["style"]


class Formulas:
    def __init__(self, files_cache):
        self.cache = files_cache

    def formula(self, digest):
        result = {"url": self.cache.get_url(digest)}
        css = result["css"] = style_cache.get(f"css:{digest}")
        if css is None:
            css = result["css"] = self.cache.read_data(digest, "css").decode()
            style_cache.set(f"css:{digest}", css, 3600)
        return result
