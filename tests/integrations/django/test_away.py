"""A site whose Redis is away or full: what Django's own pages, fragments and sessions do then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.views.decorators.cache import cache_page

from bench.herd.valkey import ValkeyServer
from tests.integrations.django.shop.settings import caches_at

pytestmark = pytest.mark.usefixtures("site")


@contextmanager
def killed(server: ValkeyServer) -> Iterator[None]:
    server.kill()
    yield


@contextmanager
def full(server: ValkeyServer) -> Iterator[None]:
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)
        yield


@pytest.mark.parametrize("fault", [killed, full])
def test_pages_and_fragments_are_served(
    fault: Callable[[ValkeyServer], object], own_valkey: ValkeyServer, namespace: str
) -> None:
    from tests.integrations.django.shop.urls import gate

    with override_settings(CACHES=caches_at(own_valkey.url, namespace)), fault(own_valkey):
        for path, content in (("/page/1", b"page 1 of 1"), ("/fragment", b"&lt;b&gt;1&lt;/b&gt;")):
            gate.reset()
            answer = Client().get(path)
            assert (answer.status_code, answer.content, gate.entered) == (200, content, 1)


async def test_a_page_of_a_coroutine_is_served_and_so_is_what_it_gets_or_sets(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    @cache_page(60)
    async def page(request: HttpRequest) -> HttpResponse:
        found = cache.get_or_set("a", lambda: 1), await cache.aget_or_set("b", lambda: 2)
        return HttpResponse(f"{found}")

    with override_settings(CACHES=caches_at(own_valkey.url, namespace)), killed(own_valkey):
        answer = await page(RequestFactory().get("/"))
    assert answer.content == b"(1, 2)"


@override_settings(SESSION_ENGINE="django.contrib.sessions.backends.cached_db")
def test_a_new_session_is_made_in_the_database(own_valkey: ValkeyServer, namespace: str) -> None:
    from django.contrib.sessions.backends.cached_db import SessionStore

    with override_settings(CACHES=caches_at(own_valkey.url, namespace)), killed(own_valkey):
        session = SessionStore()
        session["cart"] = [1]
        session.save()
        assert SessionStore(session.session_key)["cart"] == [1]


def test_a_value_that_was_changed_and_not_stored_is_an_error(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    with override_settings(CACHES=caches_at(own_valkey.url, namespace)):
        cache.set("key", 1)
        own_valkey.kill()
        assert cache.get("key") is None
        for change in (lambda: cache.set("key", 2), lambda: cache.add("key", 2), lambda: cache.incr("key")):
            with pytest.raises(redis.exceptions.ConnectionError):
                change()
