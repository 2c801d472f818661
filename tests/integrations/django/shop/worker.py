"""The site of a worker process, `gunicorn tests.integrations.django.shop.worker:wsgi`, with a journal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.cache import cache
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import path
from django.views.decorators.cache import cache_page

from tests.chaos.journal import Journal
from tests.integrations.django.shop.settings import caches_at, postgres_at, settings_with

journal = Journal(Path(os.environ["SHOP_JOURNAL"]))
settings.configure(
    **settings_with(":memory:", caches_at(os.environ["SHOP_URL"], os.environ["SHOP_NAMESPACE"]))
    | {
        "ROOT_URLCONF": "tests.integrations.django.shop.worker",
        "DATABASES": {"default": postgres_at(os.environ["SHOP_DATABASE"], os.environ["SHOP_NAMESPACE"])},
    }
)
django.setup()

from stampede_guard.integrations.django import locked_cache  # noqa: E402 - it reads the settings

SECONDS = 0.5
"""How long a computation takes: long enough for the requests of one burst to meet it."""


def compute(what: str) -> str:
    journal.write(what, f"{os.getpid()}#{len(journal.lines(what))}", "started")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [SECONDS])
    return what


def total(request: HttpRequest) -> HttpResponse:
    return HttpResponse(cache.get_or_set("total", lambda: compute("total"), 600))


@cache_page(600)
def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(compute("page"))


def fragment(request: HttpRequest) -> HttpResponse:
    template = engines["django"].from_string("{% load cache %}{% cache 600 side %}{{ slow }}{% endcache %}")
    return HttpResponse(template.render({"slow": lambda: compute("fragment")}))


@locked_cache(ttl=600)
def slow(shelf: int) -> str:
    return compute("helper")


def helper(request: HttpRequest) -> HttpResponse:
    return HttpResponse(slow(1))


@locked_cache(ttl=600)
def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(compute("view"))


@locked_cache(ttl=600)
@transaction.non_atomic_requests
async def aview(request: HttpRequest) -> HttpResponse:
    from asgiref.sync import sync_to_async

    return HttpResponse(await sync_to_async(compute)("aview"))


def who(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{os.getpid()}")


VIEWS: dict[str, Any] = {one.__name__: one for one in (total, page, fragment, helper, view, aview)}
urlpatterns = [path("who", who), *(path(name, one) for name, one in VIEWS.items())]
wsgi, asgi = WSGIHandler(), ASGIHandler()
