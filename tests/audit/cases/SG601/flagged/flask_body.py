from flask import request
from flask_caching import Cache

cache = Cache()


@cache.memoize(timeout=300)
def heat():
    return render(request.get_json())


@cache.cached(timeout=300)
def page():
    return render(request.args["page"])
