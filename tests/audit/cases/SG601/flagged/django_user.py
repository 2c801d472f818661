from django.views.decorators.cache import cache_page


@cache_page(60)
def orders(request):
    return render(request, "orders.html", {"orders": request.user.orders.all()})
