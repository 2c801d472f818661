from fastapi import APIRouter, Request
from fastapi_cache.decorator import cache as fastapi_cache
from flask import g, request, session
from flask_login import current_user

from app import cache

router = APIRouter()


@app.route("/inbox")
@cache.cached(timeout=60, make_cache_key=lambda: f"inbox:{current_user.id}")
def inbox():
    return render_template("inbox.html", messages=current_user.messages)


@app.route("/front")
@cache.cached(timeout=60, unless=lambda: current_user.is_authenticated)
def front():
    return render_template("front.html", user=current_user)


@app.route("/prices")
@cache.cached(timeout=60)
def prices():
    logger.info("asked by %s", current_user.id)
    return jsonify(all_prices(g.db, request.method))


@app.route("/seen")
@cache.cached(timeout=60)
def seen():
    return jsonify(of(g.settings))


@cache.memoize(60)
def messages(current_user):
    return current_user.messages


@router.get("/orders")
@fastapi_cache(expire=60, key_builder=by_query)
async def orders(request: Request):
    return await load(page=request.query_params.get("page"))


@router.get("/sums")
@fastapi_cache(expire=60)
async def sums(request: Request, day: str):
    return await load(request.app.state.pool, request.state.db, day)
