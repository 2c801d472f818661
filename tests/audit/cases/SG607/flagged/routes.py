from flask import Flask, request
from flask_caching import Cache

app = Flask(__name__)
cache = Cache(app)


@app.route("/note/<int:note>", methods=["DELETE"])
@cache.memoize(30)
def remove(note):
    notes.delete(note)
    return "", 204


@app.route("/notes", methods=["POST"])
@cache.cached(timeout=30)
def add():
    return notes.add(request.json)


@app.route("/note/<int:note>", methods=["PUT", "PATCH"])
@cache.cached(timeout=30)
def change(note):
    return notes.change(note, request.json)
