from functools import wraps

from django.core.cache import cache
from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from rest_framework import viewsets
from rest_framework.response import Response

from shop.keys import key_of


def cache_for_caller(timeout=300):
    def decorator(view):
        @wraps(view)
        def wrapper(request, *args, **kwargs):
            cache_key = f"{view.__name__}:{request.user.pk}:{request.path}"
            found = cache.get(cache_key)
            if found is None:
                found = view(request, *args, **kwargs).data
                cache.set(cache_key, found, timeout)
            return Response(found)

        return wrapper

    return decorator


def cache_response(view):
    @wraps(view)
    def wrapper(request):
        cache_key = key_of(request)
        found = cache.get(cache_key)
        if found is None:
            found = view(request).data
            cache.set(cache_key, found, 60)
        return Response(found)

    return wrapper


def cache_pages(view):
    @wraps(view)
    def wrapper(request):
        cache_key = f"{view.__name__}:{request.path}"
        found = cache.get(cache_key)
        if found is None:
            found = view(request).data
            cache.set(cache_key, found, 60)
        return Response(found)

    return wrapper


@cache_for_caller()
def orders(request):
    return Response(request.user.orders.all())


@cache_response
def basket(request):
    return Response(request.user.basket)


@cache_pages
def prices(request):
    return Response(Price.objects.all())


@method_decorator(cache_page(60), name="list")
class Products(viewsets.ReadOnlyModelViewSet):
    def get_queryset(self):
        return Product.objects.all()

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)
