"""`engineering` and `monitoring` are not the library ring."""

from engineering.cache import cache
from flask import Blueprint, jsonify
from monitoring.web import Point, db

mod = Blueprint("api", __name__)


@mod.route("/api/points")
@cache.cached(timeout=30)
def points():
    return jsonify([row.total for row in db.session.query(Point).all()])
