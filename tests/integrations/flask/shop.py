"""The application of a worker process, `gunicorn tests.integrations.flask.shop:create_app()`, with a journal."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flask import Flask, current_app, render_template_string, request
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import text

from stampede_guard.integrations.flask import Stampede
from tests.chaos.journal import Journal

SECONDS = 0.4
"""How long a computation takes: long enough for the requests of one burst to meet it."""

db = SQLAlchemy()
stampede = Stampede()


def compute(what: str) -> str:
    journal: Journal = current_app.extensions["journal"]
    journal.write(what, f"{os.getpid()}#{len(journal.lines(what))}", "started")
    time.sleep(SECONDS)
    return what


@stampede.locked_cache(ttl=600)
def helper(shelf: int) -> dict[str, str]:
    """The session takes a connection of the pool of this process, and gives it back."""
    return {"text": compute(db.session.scalar(text("SELECT 'helper'")) or "")}


@stampede.locked_cache(ttl=600)
def held(number: int) -> str:
    compute("held")
    while not Path(os.environ["SHOP_GATE"]).exists():
        time.sleep(0.01)
    return "held"


@stampede.cached_view(ttl=600)
def page() -> str:
    return render_template_string("{{ what }}", what=compute(request.path.strip("/")))


def create_app() -> Flask:
    app = Flask(__name__, static_folder=None)
    app.config.from_mapping(
        SQLALCHEMY_DATABASE_URI="sqlite://",
        STAMPEDE_GUARD_URL=os.environ["SHOP_URL"],
        STAMPEDE_GUARD_NAMESPACE=os.environ["SHOP_NAMESPACE"],
        # No worker of a busy machine may give up.
        STAMPEDE_GUARD_POLICY={"wait_timeout": 110},
    )
    app.extensions["journal"] = Journal(Path(os.environ["SHOP_JOURNAL"]))
    db.init_app(app)
    stampede.init_app(app)
    app.get("/helper")(lambda: helper(1)["text"])
    app.get("/page")(page)
    app.get("/held", endpoint="held")(lambda: held(1))
    app.get("/who", endpoint="who")(lambda: f"{os.getpid()}")
    app.get("/left", endpoint="left")(lambda: f"{len(db.session.registry.registry)}")
    return app
