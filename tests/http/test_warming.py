"""Warm URLs, and list what is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute, Misuse, stored_urls, warm
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.gate import until

SITE = "http://example.test"


async def test_warm_urls_are_hits_for_clients_and_fresh_ones_are_not_computed_again() -> None:
    app = App(cached(vary="accept-language"))
    async with Fleet(app) as fleet:
        urls = [f"{SITE}/a?q=1", f"{SITE}/b%20c", f"{SITE}/ä", SITE]
        told = await warm(fleet.middlewares[0], urls=urls, headers={"Accept-Language": "de"})
        assert [one.url for one in told] == urls
        assert all(one.status == 200 and "stored" in one.cache_status for one in told)
        for path in ("/a?q=1", "/b%20c", "/%C3%A4", "/"):
            assert "hit" in status_of(await fleet.get(path, accept_language="de"))
        again = await warm(fleet.middlewares[0], urls=urls, headers={"Accept-Language": "de"})
        assert all("hit" in one.cache_status for one in again)
        assert app.calls == 4


async def test_so_many_at_once_and_no_more() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        app.go.clear()
        task = asyncio.ensure_future(
            warm(fleet.middlewares[0], urls=(f"{SITE}/{n}" for n in range(9)), at_once=3)
        )
        await until(lambda: app.open == 3)
        app.go.set()
        assert len(await task) == 9
        assert app.most_open == 3


async def test_a_failure_and_an_endless_response_stop_nothing() -> None:
    app = App(cached())

    async def handle(scope: Any, receive: Any, send: Any, number: int) -> None:
        if scope["path"] == "/raises":
            raise ValueError("no")
        if scope["path"] == "/endless":
            await asyncio.Event().wait()
        await start(send, app.headers)
        await send({"type": "http.response.body", "body": b"x"})

    app.handler = handle
    raised, endless, good = await warm(
        app, urls=[f"{SITE}/{name}" for name in ("raises", "endless", "good")], timeout=0.05
    )
    assert isinstance(raised.error, ValueError)
    assert isinstance(endless.error, TimeoutError)
    assert (good.status, good.error) == (200, None)


@pytest.mark.parametrize(
    "options",
    [
        {"urls": "http://a/"},
        {"urls": ["/a"]},
        {"urls": ["ftp://a/"]},
        {"urls": ["http://u:p@a/"]},
        {"urls": ["http://a:x/"]},
        {"urls": [7]},
        {"urls": [SITE], "headers": {"a b": "1"}},
        {"urls": [SITE], "headers": {"a": "1\r\nb: 2"}},
        {"urls": [SITE], "headers": {"Host": "b"}},
        {"urls": [SITE], "at_once": 0},
    ],
)
async def test_what_cannot_be_asked_is_refused_before_the_first_request(options: Any) -> None:
    app = App()
    with pytest.raises(Misuse):
        await warm(app, **options)
    assert app.calls == 0


@pytest.mark.parametrize("shared", [False, True])
async def test_stored_urls_are_listed_with_their_entries(
    shared: bool, valkey_url: str, namespace: str
) -> None:
    app = App({"cache-control": "private, max-age=60"})
    on = valkey_url if shared else None
    route = CacheRoute("/r/*", ttl=60, private_to="header:x-who")
    async with Fleet(app, on=on, namespace=namespace, routes=[route]) as fleet:
        for user in ("anna", "berta"):
            await fleet.get("/r/1?b=1&a=2", x_who=user)
        await fleet.get("/r/2", x_who="anna")
        found = await stored_urls(fleet.guards[0])
        assert found == {f"{SITE}/r/1?a=2&b=1": 2, f"{SITE}/r/2": 1}
        assert list(await stored_urls(fleet.guards[0], prefix="/r/2")) == [f"{SITE}/r/2"]
        assert await stored_urls(fleet.guards[0], name="other") == {}
