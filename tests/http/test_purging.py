"""Purges: by URL in all variants, by the beginning of URLs, by group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import stampede_guard
from stampede_guard import CacheRoute, StampedeGuard, StampedeMiddleware
from stampede_guard.errors import Misuse
from stampede_guard.http.requests.addresses import Addresses
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, status_of


def user(scope: Any) -> str:
    return str(dict(scope["headers"]).get(b"x-tenant", b"").decode())


async def test_all_variants_of_a_url_go_and_no_other_url() -> None:
    app = App(cached(vary="x"))
    routes = [CacheRoute("/route", ttl=60, key=user, methods=("GET", "POST"))]
    async with Fleet(app, processes=2, routes=routes) as fleet:
        asked: list[tuple[str, dict[str, str]]] = [
            ("/a", {"x": "1"}), ("/a", {"x": "2"}), ("/a", {"x_forwarded_host": "other.example"}),
            ("/route", {"x_tenant": "1"}), ("/route", {"x_tenant": "2"}),
        ]  # fmt: skip
        others = ["/a/b", "/a?q=1", "/b", "/A"]
        for path, fields in asked:
            await fleet.get(path, **fields)
        for path in others:
            await fleet.get(path)
        posted = ("POST", "/route")
        await request(fleet.middlewares[0], *posted, body=b"x")
        assert "hit" in status_of(await request(fleet.middlewares[0], *posted, body=b"x"))
        for path in ("http://example.test/a", "/route"):
            assert await fleet.middlewares[1].purge(url=path) == "done"
        for path, fields in asked:
            assert "hit" not in status_of(await fleet.get(path, **fields)), (path, fields)
        assert "hit" not in status_of(await request(fleet.middlewares[0], *posted, body=b"x"))
        for path in others:
            assert "hit" in status_of(await fleet.get(path))


async def test_a_prefix_is_all_urls_that_begin_so() -> None:
    async with Fleet(App(cached())) as fleet:
        for path in ("/reports/1", "/reports/2?a=1", "/report", "/x/reports/1"):
            await fleet.get(path)
        await fleet.get("/reports/1", host="other.example")
        assert (
            await stampede_guard.purge(fleet.guards[0], prefix="https://example.test:443/reports/") == "done"
        )
        found = {
            path: "hit" in status_of(await fleet.get(path))
            for path in ("/reports/1", "/reports/2?a=1", "/report", "/x/reports/1")
        }
        assert list(found.values()) == [False, False, True, True]
        assert "hit" in status_of(await fleet.get("/reports/1", host="other.example"))


async def test_a_tag_is_a_group() -> None:
    async with Fleet(App(cached(cache_groups='"a"'))) as fleet:
        await fleet.get()
        assert await fleet.middlewares[0].purge(tag="a") == "done"
        assert "hit" not in status_of(await fleet.get())


async def test_a_response_that_was_under_way_serves_nobody_who_comes_after_the_purge() -> None:
    app = App(cached())
    async with Fleet(app, processes=2) as fleet:
        app.go.clear()
        early = asyncio.ensure_future(fleet.get("/a"))
        await app.called.wait()
        assert await fleet.middlewares[1].purge(prefix="/a") == "done"
        late = [asyncio.ensure_future(fleet.get("/a", process=process)) for process in (0, 1)]
        await asyncio.sleep(0)
        app.go.set()
        assert (await early).body == b"answer 1"
        assert {answer.body for answer in await asyncio.gather(*late)} == {b"answer 2"}


async def test_a_purge_reaches_no_other_tenant_and_no_middleware_of_another_name() -> None:
    app = App(cached())
    async with StampedeGuard.from_url("memory://", namespace="shop") as guard:
        caches = [
            StampedeMiddleware(app, guard=guard),
            StampedeMiddleware(app, guard=guard.within("one")),
            StampedeMiddleware(app, guard=guard, name="edge"),
        ]
        for cache in caches:
            await request(cache, "GET", "/a")
        await caches[1].purge(prefix="/")
        found = ["hit" in status_of(await request(cache, "GET", "/a")) for cache in caches]
        assert found == [True, False, True]
        await caches[2].purge(url="/a")
        found = ["hit" in status_of(await request(cache, "GET", "/a")) for cache in caches]
        assert found == [True, True, False]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"url": "/a", "tag": "b"},
        {"url": "a"},
        {"prefix": "ftp://x/"},
        {"url": ""},
        {"url": "/" * 9000},
        {"url": 3},
    ],
)
async def test_what_names_no_address_is_refused(given: dict[str, Any]) -> None:
    async with Fleet(App(cached())) as fleet:
        with pytest.raises(Misuse):
            await fleet.middlewares[0].purge(**given)


@pytest.mark.parametrize(
    ("address", "entry", "expected"),
    [
        ("/a%2Db", "http3:http://x/a-b?", True),
        ("/a-b", "http3:http://x/a%252Db?", True),
        ("/é", "http3:http://x/%25C3%25A9?", True),
        ("/é", "http3:http://x/%C3%83%C2%A9?", True),
        ("https://X:443/a", "http3:http://x/a?", True),
        ("https://x/a", "http3:http://y/a?", False),
        ("https://x/a", "http3:f:0a:http://y/a?", True),
        ("/a?y=2&x=1", "http3:r:http://x/a?x=1%26y=2", True),
        ("/a?y=2&x=1", "http3:http://x/a?x=1%26y=2", False),
        ("/a?x=1", "http3:r:http://x/a?x=1%26y=2", False),
        ("/a?x=1", "http3:r:0a:http://x/a?", True),
        ("/a", "http3:http://x/a?#0a1b2c3d4e5f.17", True),
        ("/a", "http3:@edge:http://x/a?", False),
        ("/a", "other:http://x/a?", False),
    ],
)
def test_an_address_means_these_entries(address: str, entry: str, expected: bool) -> None:
    assert Addresses.of(url=address).include(entry, "http3:") is expected


async def test_on_a_server_too(valkey_url: str, namespace: str) -> None:
    async with Fleet(App(cached()), on=valkey_url, namespace=namespace) as fleet:
        for path in ("/a", "/b?x=[1]*"):
            await fleet.get(path)
        await fleet.middlewares[0].purge(url="/b?x=[1]*")
        assert "hit" in status_of(await fleet.get("/a"))
        assert "hit" not in status_of(await fleet.get("/b?x=[1]*"))


SPELLINGS = [
    ("/city?q=Z%C3%BCrich", "/city?q=Zürich"),
    ("/city?q=Z%c3%bcrich", "/city?q=Zürich"),
    ("/city?q=New%20York", "/city?q=New York"),
    ("/city?q=New+York", "/city?q=New York"),
    ("/city?at=10%3A00", "/city?at=10:00"),
    ("/city?at=10:00", "/city?at=10%3A00"),
    ("/city?key=a%3D%3D&z", "/city?key=a==&z"),
    ("/city?%71=1", "/city?q=1"),
    ("/city?q=%25C3", "/city?q=%25C3"),
]


@pytest.mark.parametrize(("stored", "given"), SPELLINGS)
@pytest.mark.parametrize("how", ["url", "prefix"])
@pytest.mark.parametrize("kind", ["plain", "a route", "No-Vary-Search"])
async def test_a_query_may_be_spelt_as_a_person_writes_it(
    stored: str, given: str, how: str, kind: str
) -> None:
    app = App(cached(no_vary_search='params=("utm")') if kind == "No-Vary-Search" else cached())
    routes = [CacheRoute("/city", ttl=60)] if kind == "a route" else []
    async with Fleet(app, routes=routes) as fleet:
        for path in (stored, "/city?q=other"):
            await fleet.get(path)
            assert "hit" in status_of(await fleet.get(path))
        assert await fleet.middlewares[0].purge(**{how: given}) == "done"
        assert "hit" not in status_of(await fleet.get(stored))
        # With No-Vary-Search, all queries of the path go.
        assert kind == "No-Vary-Search" or "hit" in status_of(await fleet.get("/city?q=other"))


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        ("/a?q=1%26b=2", "/a?q=1&b=2"),
        ("/a?q=1;b=2", "/a?q=1%3Bb=2"),
        ("/a?q%3D1", "/a?q=1"),
        ("/a?q=%2B", "/a?q=+"),
        ("/a?q=1", "/a?q=2"),
        ("/a?q=%25C3", "/a?q=%C3"),
    ],
)
async def test_what_an_application_reads_as_another_query_stays(stored: str, given: str) -> None:
    async with Fleet(App(cached())) as fleet:
        await fleet.get(stored)
        await fleet.middlewares[0].purge(url=given)
        await fleet.middlewares[0].purge(prefix=given)
        assert "hit" in status_of(await fleet.get(stored))


async def test_a_prefix_may_end_within_an_escaped_character() -> None:
    async with Fleet(App(cached())) as fleet:
        await fleet.get("/a?q=%C3%BC")
        await fleet.middlewares[0].purge(prefix="/a?q=%C3%B")
        assert "hit" not in status_of(await fleet.get("/a?q=%C3%BC"))
