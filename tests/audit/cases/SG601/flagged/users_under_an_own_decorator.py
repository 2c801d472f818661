import hashlib
from functools import wraps

from django.core.cache import cache
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from rest_framework import viewsets
from rest_framework.response import Response


def cache_response(timeout=300):
    def decorator(view):
        @wraps(view)
        def wrapper(*args, **kwargs):
            cache_key = f"{view.__name__}:{hashlib.md5(str(args).encode()).hexdigest()}"
            found = cache.get(cache_key)
            if found is None:
                found = view(*args, **kwargs).data
                cache.set(cache_key, found, timeout)
            return Response(found)

        return wrapper

    return decorator


class Documents(viewsets.ModelViewSet):
    def get_queryset(self):
        return Document.objects.filter(owner=self.request.user)

    @cache_response(timeout=300)
    def list(self, request, *args, **kwargs):
        return super().list(request, *args, **kwargs)


@cache_response()
def metrics(request):
    if not request.user.is_staff:
        return Response(status=403)
    return Response(count())


@method_decorator(cache_page(60), name="list")
class Orders(viewsets.ReadOnlyModelViewSet):
    def get_queryset(self):
        return Order.objects.filter(customer=self.request.user)


class Baskets(viewsets.ReadOnlyModelViewSet):
    def get_queryset(self):
        return Basket.objects.filter(customer=self.request.user)

    @method_decorator(cache_page(60))
    def retrieve(self, request, *args, **kwargs):
        return super().retrieve(request, *args, **kwargs)
