"""What the key of a cached view tells apart."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

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
