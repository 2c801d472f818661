from flask import *
from flask_login import current_user, login_required

from app import cache


@app.route("/inbox")
@login_required
@cache.cached(timeout=60)
def inbox():
    return render_template("inbox.html", messages=current_user.messages)


@app.route("/sums")
@cache.memoize(60)
def sums(viewer):
    days = int(request.args.get("days", 30))
    return jsonify(sums_of(days))


@app.route("/team/<int:team>")
@cache.cached(timeout=60)
def team(team):
    if not g.user.may_see(team):
        abort(403)
    return jsonify(members(team))


@cache.memoize(60)
def basket():
    return load(session["basket"])


@app.route("/mine")
@cache.cached(timeout=60, key_prefix="mine", query_string=True)
def mine():
    return jsonify(load(current_user.id))
