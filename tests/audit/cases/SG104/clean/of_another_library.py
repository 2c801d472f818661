"""Caches of other libraries, which have rules of their own, and views that cost nothing."""

from app.diskcache_store import diskcache
from app.ring import cache
from flask import render_template
from flask_caching import Cache

pages = Cache()


@cache.memoize()
def first(day): ...


@diskcache.memoize(expire=60)
def second(day): ...


@pages.cached(timeout=60)
def about():
    return render_template("about.html")
