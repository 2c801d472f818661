from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_page
from rest_framework.viewsets import ViewSet


@method_decorator(cache_page(60), name="list")
class Orders(ViewSet):
    def list(self, request):
        return answer(Order.objects.filter(public=True))

    def retrieve(self, request, pk):
        return answer(Order.objects.get(pk=pk, owner=request.user))
