import functools
from functools import lru_cache

from django.shortcuts import get_object_or_404
from django.views.generic import DetailView
from rest_framework.viewsets import ModelViewSet


class PageView(DetailView):
    @functools.cache
    def parent(self):
        return get_object_or_404(Page, pk=self.kwargs["page"])


class Orders(ModelViewSet):
    @lru_cache(maxsize=10)
    def customer(self, day: str):
        return Customer.objects.get(pk=self.request.user.pk)
