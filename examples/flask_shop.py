"""A Flask shop with Flask-SQLAlchemy: a cached function, a cached page, and their invalidation.

    python examples/flask_shop.py

prints, the first time:

    delivered: done done
    rendering /shelf/7
    counted shelf 7
    20 visitors have: {'shelf 7 of localhost has 2 products'}
    rendering /shelf/7
    counted shelf 7
    after a delivery: shelf 7 of localhost has 3 products
    rendering /shelf/8
    counted shelf 8
    shelf 8: {'empty': 8}
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from flask import Flask, request
from flask_sqlalchemy import SQLAlchemy

from stampede_guard.integrations.flask import Stampede

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
db = SQLAlchemy()
stampede = Stampede()


class Product(db.Model):
    id = db.mapped_column(db.Integer, primary_key=True)
    shelf = db.mapped_column(db.Integer)


@stampede.locked_cache(ttl=300, tags=("shelf:{shelf}",))
def count(shelf: int) -> int:
    print("counted shelf", shelf)
    if found := db.session.query(Product).filter_by(shelf=shelf).count():
        return found
    raise LookupError(shelf)


@stampede.cached_view(ttl=60, tags=("shelf:{shelf}",))
def page(shelf: int) -> str:
    print("rendering", request.path)
    return f"shelf {shelf} of {request.host} has {count(shelf)} products"


def deliver(shelf: int) -> str:
    db.session.add(Product(shelf=shelf))
    db.session.commit()
    return stampede.guard.sync.invalidate_tag(f"shelf:{shelf}")  # after the commit


def create_app() -> Flask:
    app = Flask("shop")
    app.config |= {"SQLALCHEMY_DATABASE_URI": "sqlite://", "STAMPEDE_GUARD_URL": URL}
    db.init_app(app)
    stampede.init_app(app)
    app.get("/shelf/<int:shelf>")(page)
    app.post("/shelf/<int:shelf>", endpoint="deliver")(deliver)
    app.errorhandler(LookupError)(lambda error: ({"empty": error.args[0]}, 404))
    return app


if __name__ == "__main__":
    client = (app := create_app()).test_client()
    with app.app_context():
        db.create_all()
        print("delivered:", deliver(7), deliver(7))
    with ThreadPoolExecutor(20) as pool:
        pages = pool.map(lambda _: app.test_client().get("/shelf/7").text, range(20))
        print("20 visitors have:", set(pages))
    client.post("/shelf/7")
    print("after a delivery:", client.get("/shelf/7").text)
    print("shelf 8:", client.get("/shelf/8").json)
