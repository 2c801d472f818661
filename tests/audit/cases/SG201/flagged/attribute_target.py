from django.core.cache import cache


class Labels:
    def label(self, name):
        self.labels = cache.get("labels")
        if self.labels is None:
            self.labels = {}
            for field in load_fields():
                self.labels[field.name] = field.label
            cache.set("labels", self.labels, 3600)
        return self.labels.get(name)
