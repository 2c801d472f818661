"""Leases of the cache backend that end, whatever becomes of their request."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from asgiref.sync import ThreadSensitiveContext
from django.core.cache import cache, caches, close_caches
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from django.urls import path
from django.views.decorators.cache import cache_page

from bench.herd.valkey import ValkeyServer
from stampede_guard.integrations.django import Cache, guard_of
from tests.integrations.django.gates import joined, threads, until
from tests.integrations.django.shop.settings import caches_at

pytestmark = pytest.mark.usefixtures("site")
KEY = "template.cache.x"


def held() -> list[str]:
    """The keys whose leases this process has."""
    return list(caches["default"]._cache.held)


def is_free() -> bool:
    """Whether another caller gets the lease of the key, or a value, without waiting until it gives up."""

    def ask() -> bool:
        found = cache.get(KEY)
        return found is not None or any(KEY in key for key in held())

    with threads(1) as submit:
        return bool(submit(ask).result())


async def test_two_requests_for_a_page_on_one_event_loop_do_not_stop_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entered, both = 0, asyncio.Event()

    async def view(_: HttpRequest) -> HttpResponse:
        nonlocal entered
        entered += 1
        if entered == 2:
            both.set()
        await both.wait()
        return HttpResponse("page")

    page = cache_page(60)(view)
    requests = [asyncio.create_task(page(RequestFactory().get("/page"))) for _ in range(2)]
    assert [response.content for response in await asyncio.gather(*requests)] == [b"page"] * 2
    assert not [record for record in caplog.records if "has no value" in record.message]
    assert (await page(RequestFactory().get("/page"))).content == b"page"
    assert entered == 2


async def test_a_plain_get_or_set_on_an_event_loop_does_not_wait_for_a_task_of_it() -> None:
    begun, opened = asyncio.Event(), asyncio.Event()

    async def compute() -> int:
        begun.set()
        await opened.wait()
        return 1

    leader = asyncio.create_task(cache.aget_or_set("key", compute))
    await begun.wait()
    assert cache.get_or_set("key", lambda: 2) == 2
    opened.set()
    await leader
    assert cache.get("key") == 2


def test_what_another_thread_set_meanwhile_is_not_overwritten() -> None:
    assert cache.get(KEY) is None
    with threads(2) as submit:
        waiter = submit(lambda: cache.get(KEY))
        joined(guard_of(), 2)
        submit(lambda: cache.set(KEY, "newer")).result()
        assert waiter.result() == "newer"
    cache.set(KEY, "older")
    assert cache.get(KEY) == "newer"


@contextmanager
def _full(server: ValkeyServer) -> Iterator[None]:
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        yield
        client.config_set("maxmemory", "0")


def test_a_store_without_memory_is_a_miss_and_leaves_no_lease(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    with override_settings(CACHES=caches_at(own_valkey.url, namespace)):
        with _full(own_valkey):
            assert cache.get(KEY) is None
            assert cache.get_or_set("other", lambda: 3) == 3
            cache.set(KEY, 4)
        assert is_free()


def test_a_store_that_lost_its_memory_meanwhile_leaves_no_lease(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    with override_settings(CACHES=caches_at(own_valkey.url, namespace)):
        assert cache.get(KEY) is None
        with _full(own_valkey):
            cache.set(KEY, 4)
        assert not held()
        assert is_free()


def test_a_value_that_pickle_refuses_leaves_no_lease(valkey_url: str, namespace: str) -> None:
    given = caches_at(valkey_url, namespace, error_ttl=0.0)
    given["default"]["OPTIONS"]["serializer"] = "pickle"
    with override_settings(CACHES=given), threads(1) as submit:
        with pytest.raises(TypeError, match="pickle"):
            cache.get_or_set("key", threading.Lock)
        assert submit(lambda: cache.get_or_set("key", lambda: 1)).result() == 1


async def test_a_caller_that_is_cancelled_as_it_gets_the_lease_leaves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from django.conf import settings

    given = settings.CACHES["default"]
    first, loop = Cache(given["LOCATION"], given), asyncio.get_running_loop()
    begun, opened, begin = asyncio.Event(), threading.Event(), first._cache.begin

    def slowly(*args: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        assert opened.wait(60)
        return begin(*args)

    monkeypatch.setattr(first._cache, "begin", slowly)
    caller = asyncio.create_task(first.aget(KEY))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    monkeypatch.undo()
    opened.set()
    assert await asyncio.to_thread(is_free)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_end_its_parents_leases() -> None:
    assert cache.get(KEY) is None
    child = os.fork()
    if not child:
        code = 1
        try:
            close_caches()
            code = 0
        finally:
            os._exit(code)
    ended: list[int] = []

    def has_ended() -> bool:
        process, status = os.waitpid(child, os.WNOHANG)
        ended.extend([status] if process else [])
        return bool(process)

    try:
        until(has_ended)
    finally:
        if not ended:
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert ended == [0]
    with threads(1) as submit:
        waiter = submit(lambda: cache.get(KEY))
        joined(guard_of(), 2)
        cache.set(KEY, "value")
        assert waiter.result() == "value"


async def test_a_request_that_ends_ends_no_lease_of_another_one() -> None:
    shared = caches["default"]  # made before the first request: all requests have this object
    taken, ended = asyncio.Event(), asyncio.Event()

    async def long_request() -> None:
        async with ThreadSensitiveContext():
            assert await shared.aget(KEY) is None
            taken.set()
            await ended.wait()
            await shared.aset(KEY, "value")

    async def short_request() -> None:
        async with ThreadSensitiveContext():
            close_caches()

    request = asyncio.create_task(long_request())
    await taken.wait()
    waiter = asyncio.create_task(Cache(*_given()).aget(KEY))
    await asyncio.to_thread(joined, guard_of(), 2)
    await asyncio.create_task(short_request())
    assert len(held()) == 1
    ended.set()
    await request
    assert await waiter == "value"


def _given() -> tuple[Any, dict[str, Any]]:
    from django.conf import settings

    given = dict(settings.CACHES["default"])
    return given["LOCATION"], given


entered: asyncio.Event


async def endless(_: HttpRequest) -> HttpResponse:
    entered.set()
    await asyncio.Event().wait()
    return HttpResponse()


urlpatterns = [path("endless", endless)]
MIDDLEWARE = [f"django.middleware.cache.{name}CacheMiddleware" for name in ("Update", "FetchFrom")]


@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE)
async def test_a_client_that_goes_away_leaves_no_lease() -> None:
    global entered
    entered = asyncio.Event()
    messages = iter([{"type": "http.request", "body": b""}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        message = next(messages)
        if message["type"] == "http.disconnect":
            await entered.wait()
            assert len(held()) == 1
        return message

    async def send(_: Any) -> None:
        """Nobody listens."""

    scope = {"type": "http", "method": "GET", "path": "/endless", "headers": [], "query_string": b""}
    await ASGIHandler()(scope, receive, send)
    assert not held()
