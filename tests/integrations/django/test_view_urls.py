"""What the key of a cached view tells apart: each spelling of a URL, and a language that the view reads itself."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.middleware.locale import LocaleMiddleware
from django.test import RequestFactory, override_settings
from django.utils import translation
from django.views.decorators.vary import vary_on_headers

from stampede_guard.integrations.django import locked_cache

pytestmark = pytest.mark.usefixtures("site")


def _asked(path: str, query: str = "") -> Any:
    """As a WSGI server gives it: `RequestFactory` would clean the path."""
    return RequestFactory().get("/", PATH_INFO=path, QUERY_STRING=query, **{"wsgi.input": io.BytesIO()})


@pytest.mark.parametrize(
    ("evil", "plain"),
    [
        (("/files/EVIL/../b",), ("/files/b",)),
        (("/files/./b",), ("/files/b",)),
        (("/files/b/..",), ("/files/",)),
        (("//EVIL/../b",), ("/b",)),
        (("/b", "q=\xe9"), ("/b", "q=%C3%A9")),
        (("/b", "q=a b"), ("/b", "q=a%20b")),
        (("/b?q=1",), ("/b", "q=1")),
    ],
)
def test_two_spellings_that_a_view_can_tell_apart_share_no_response(
    evil: tuple[str, ...], plain: tuple[str, ...]
) -> None:
    @locked_cache(ttl=60)
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(f"canonical={request.path} {request.META['QUERY_STRING']}")

    first, other = (view(_asked(*spelling)).content for spelling in (evil, plain))
    assert first != other
    assert view(_asked(*plain)).content == other


def test_a_view_that_reads_the_wanted_language_itself_answers_each_visitor() -> None:
    @locked_cache(ttl=60)
    @vary_on_headers("Accept-Language")
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(request.headers["Accept-Language"])

    for wanted in ("de", "en-GB", "en-US"):
        assert view(RequestFactory().get("/", HTTP_ACCEPT_LANGUAGE=wanted)).content == wanted.encode()


def test_a_page_whose_language_a_middleware_chose_is_computed_once_per_language() -> None:
    entered = []

    @locked_cache(ttl=60)
    def view(request: HttpRequest) -> HttpResponse:
        entered.append(request.headers["Accept-Language"])
        return HttpResponse(translation.get_language())

    with override_settings(USE_I18N=True, LANGUAGES=[("en", "English"), ("de", "German")]):
        site = LocaleMiddleware(view)
        for wanted, language in (("de", b"de"), ("de-AT", b"de"), ("en-GB", b"en"), ("en", b"en")):
            answer = site(RequestFactory().get("/", HTTP_ACCEPT_LANGUAGE=wanted))
            assert answer.content == language
            assert answer["Vary"] == "Accept-Language"
    translation.deactivate()
    assert entered == ["de", "en-GB"]
