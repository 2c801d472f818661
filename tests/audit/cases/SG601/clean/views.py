from django.views.decorators.cache import cache_page
from django.views.decorators.vary import vary_on_cookie
from flask import request
from flask_caching import Cache

cache = Cache()


@cache_page(60)
@vary_on_cookie
def orders(request):
    return render(request, "orders.html", {"orders": request.user.orders.all()})


@cache.cached(timeout=300, query_string=True)
def page():
    return render(request.args["page"])
