"""What is in the key of a view beside its `key=`."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils import timezone, translation
from django.views import View

from stampede_guard.integrations.django import guard_of, locked_cache

pytestmark = pytest.mark.usefixtures("site")

asked = RequestFactory()
KEYS = ["page:{pk}", lambda request, pk: pk]
ids = ["template", "function"]


def words(request: Any, pk: int) -> HttpResponse:
    if request.method == "HEAD":
        return HttpResponse(headers={"X-Count": "3"})
    return HttpResponse(f"{pk} {translation.get_language()} {timezone.get_current_timezone_name()}")


@pytest.mark.parametrize("key", KEYS, ids=ids)
def test_a_view_with_a_key_answers_in_the_language_and_the_time_zone_of_its_visitor(key: Any) -> None:
    page = locked_cache(ttl=60, key=key, tags=("pages",), name="page")(words)
    for _ in range(2):
        for language in ("de", "en"):
            for zone in ("Asia/Tokyo", "Europe/Rome"):
                with translation.override(language), timezone.override(zone):
                    assert page(asked.get("/"), 7).content.decode() == f"7 {language} {zone}"


@pytest.mark.parametrize("key", KEYS, ids=ids)
async def test_so_does_an_async_view(key: Any) -> None:
    async def awords(request: Any, pk: int) -> HttpResponse:
        return words(request, pk)

    page = locked_cache(ttl=60, key=key, name="apage")(awords)
    for _ in range(2):
        for language in ("de", "en"):
            with translation.override(language):
                assert (await page(asked.get("/"), 7)).content.decode() == f"7 {language} America/Chicago"


def test_so_do_the_views_of_a_class() -> None:
    class Page(View):
        @locked_cache(ttl=60, key="{pk}")
        def get(self, request: Any, pk: int) -> HttpResponse:
            return words(request, pk)

    for language in ("de", "en", "de"):
        with translation.override(language):
            assert Page.as_view()(asked.get("/"), pk=7).content.decode() == f"7 {language} America/Chicago"


@pytest.mark.parametrize("key", KEYS, ids=ids)
def test_the_empty_body_of_a_head_does_not_answer_a_get(key: Any) -> None:
    page = locked_cache(ttl=60, key=key, name="page")(words)
    assert page(asked.head("/"), 7)["X-Count"] == "3"
    answers = [page(asked.get("/"), 7) for _ in range(2)]
    assert [answer.content for answer in answers] == [b"7 en-us America/Chicago"] * 2


def test_a_tag_reaches_the_entries_of_all_languages() -> None:
    entered = []

    @locked_cache(ttl=60, key="{pk}", tags=("page:{pk}",))
    def page(request: Any, pk: int) -> HttpResponse:
        entered.append(translation.get_language())
        return words(request, pk)

    def visit() -> None:
        for language in ("de", "en"):
            with translation.override(language):
                page(asked.get("/"), 7)

    visit()
    visit()
    assert entered == ["de", "en"]
    guard_of().sync.invalidate_tag("page:7")
    visit()
    assert entered == ["de", "en"] * 2


@pytest.mark.parametrize("options", [{}, {"key": "{pk}"}, {"key": lambda request, pk: pk}])
def test_the_key_that_a_view_tells_is_the_one_of_its_entry(options: Any, valkey_url: str) -> None:
    page = locked_cache(ttl=60, name="page", **options)(words)
    with translation.override("de"):
        key = page.key(asked.get("/"), 7)
        page(asked.get("/"), 7)
        assert "'de'" in " ".join(page.explain(asked.get("/"), 7).values())
    with redis.Redis.from_url(valkey_url, decode_responses=True) as server:
        assert any(key in entry for entry in server.scan_iter(count=1000))
    assert page.key(asked.get("/"), 7) != key
    assert page.key(asked.head("/"), 7) != page.key(asked.get("/"), 7)
