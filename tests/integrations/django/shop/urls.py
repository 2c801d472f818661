"""Pages whose computations a test holds, or a journal counts."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import path
from django.views.decorators.cache import cache_page

from tests.integrations.django.gates import Gate

gate = Gate()
FRAGMENT = "{% load cache %}{% cache 60 sidebar %}{{ slow }}{% endcache %}"


@cache_page(60)
def page(request: HttpRequest, number: int) -> HttpResponse:
    gate.hold()
    response = HttpResponse(f"page {number} of {gate.entered}", headers={"X-Shop": "open"})
    response.set_cookie("seen", "1", max_age=60)
    return response


@cache_page(60)
def failing(request: HttpRequest) -> HttpResponse:
    gate.hold()
    return HttpResponse("no", status=500)


def fragment(request: HttpRequest) -> HttpResponse:
    def slow() -> Any:
        gate.hold()
        return f"<b>{gate.entered}</b>"

    return HttpResponse(engines["django"].from_string(FRAGMENT).render({"slow": slow}))


urlpatterns = [
    path("page/<int:number>", page),
    path("failing", failing),
    path("fragment", fragment),
]
