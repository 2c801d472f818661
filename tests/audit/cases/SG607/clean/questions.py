from functools import wraps

from flask import Flask, request
from flask_caching import Cache

app = Flask(__name__)
cache = Cache(app)


def cached(function):
    @wraps(function)
    def inner(*args):
        if request.method != "GET":
            return function(*args)
        return cache.get(request.path) or function(*args)

    return inner


@app.route("/note/<int:note>", methods=["GET", "DELETE"])
@cached
def note(note):
    return notes.of(note)


@app.route("/other/<int:note>", methods=["DELETE"])
@cached
def other_delete(note):
    notes.delete(note)


@app.route("/search", methods=["POST"])
@cache.cached(timeout=30, make_cache_key=lambda *args, **kwargs: request.get_data())
def search():
    return index.search(request.json)


@app.route("/score", methods=["POST"])
@cache.memoize(30)
def score(text):
    return model.score(text)


@app.route("/notes")
@cache.cached(timeout=30)
def all_notes():
    return notes.all()


class Files:
    @cache.memoize(30)
    def delete(self, name):
        return self.store.delete(name)


@cache.memoize(30)
def price_of_a_put(strike):
    return market.price(strike)


@cache.memoize(30)
def price_put(strike):
    return market.price(strike)
