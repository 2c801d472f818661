from functools import cache, cached_property

from django.views.generic import DetailView


class Rates:
    """One object for the life of the process. A request is no part of it."""

    @cache
    def of(self, day: str) -> dict[str, float]:
        return load(day)


class PageView(DetailView):
    @cached_property
    def parent(self):
        return Page.objects.get(pk=self.kwargs["page"])

    @staticmethod
    @cache
    def fields(model):
        return tuple(model._meta.get_fields())
