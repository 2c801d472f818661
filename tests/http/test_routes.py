"""CacheRoute: what it matches, what it refuses, and whom it is not for."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import CacheRoute, Misuse, StampedeMiddleware, cache_control
from stampede_guard.http.requests.settings import MiddlewareOptions, Settings
from tests.http.fleet import App, Fleet, status_of


async def _asynchronous(scope: Any) -> str:
    return ""


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/a", b"/a", True),
        ("/a", b"/a/", False),
        ("/a", b"/ab", False),
        ("/a/*", b"/a/b", True),
        ("/a/*", b"/a/b/c", True),
        ("/a/*", b"/a", False),
        ("/a/*/c", b"/a/b/c", True),
        ("/a/*/c", b"/a/b/b/c", False),
        ("/a/*/c", b"/a//c", False),
        ("/*", b"/anything", True),
        ("/a.b", b"/axb", False),
        ("/*", b"/account/x.css/../secret", False),
        ("/*", b"/%2e%2e/secret", False),
        ("/*", b"/a//b", False),
        ("/*", b"/a%2fb", False),
        ("/*", b"/a;b", False),
        ("/*", b"/a\\b", False),
        ("/*", b"/..", False),
    ],
)
def test_a_route_matches_paths_that_nobody_reads_otherwise(pattern: str, path: bytes, expected: bool) -> None:
    assert CacheRoute(pattern, ttl=1).matches(path) is expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"pattern": "reports"},
        {"pattern": ""},
        {"pattern": "/a?b=1"},
        {"pattern": "/a/**"},
        {"pattern": "/a/{item_id}"},
        {"pattern": "/*-*"},
        {"pattern": 7},
        {"ttl": 0},
        {"ttl": "60"},
        {"ttl": True},
        {"ttl": float("nan")},
        {"stale_ttl": -1},
        {"vary": "accept"},
        {"vary": ("a b",)},
        {"vary": ("Cookie",), "cookies": "ignore"},
        {"cookies": "maybe"},
        {"methods": ("PUT",)},
        {"methods": ("GET", "DELETE")},
        {"methods": ()},
        {"methods": "GET"},
        {"query": "random"},
        {"query": (1,)},
        {"vary": ("*",)},
        {"key": _asynchronous},
        {"key": "path"},
    ],
)
def test_a_route_that_cannot_work_is_refused_at_once_and_named(wrong: dict[str, Any]) -> None:
    fields = {"pattern": "/a", "ttl": 1} | wrong
    with pytest.raises(Misuse, match=rf"CacheRoute\(.*{next(iter(wrong))}"):
        CacheRoute(fields.pop("pattern"), **fields)


@pytest.mark.parametrize(
    "wrong",
    [
        {"routes": ["/a"]},
        {"routes": CacheRoute("/a", ttl=1)},
        {"name": "no spaces"},
        {"name": ""},
        {"max_body_bytes": 0},
        {"max_request_bytes": -1},
        {"variants": 0},
        {"keep": -1},
        {"stale_if_error": "1"},
        {"cache_status": "edge"},
        {"targets": "cdn-cache-control"},
        {"targets": ("a b",)},
        {"targets": ("Cache-Control",)},
        {"routes": [CacheRoute("/a", ttl=1), CacheRoute("/a", ttl=2, methods=("GET",))]},
        {"credential_headers": (1,)},
        {"guard": "redis://"},
    ],
)
def test_a_middleware_that_cannot_work_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        StampedeMiddleware(App(), **wrong)


def test_a_wrong_name_is_refused_with_the_nearest_option() -> None:
    with pytest.raises(
        Misuse, match=r"StampedeMiddleware has no rotes \(do you mean routes\?\); it has guard, routes"
    ):
        StampedeMiddleware(App(), rotes=[])  # type: ignore[call-arg]


def test_type_checkers_know_every_setting() -> None:
    fields = {name for name, field in Settings.__dataclass_fields__.items() if field.init}
    assert MiddlewareOptions.__annotations__.keys() == fields


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"max_age": -1},
        {"max_age": True},
        {"public": 1.5},
        {"maxage": 60},
        {"no_store": True, "max_age": 60},
        {"private": True, "s_maxage": 60},
        {"must_revalidate": True, "max_age": 1, "stale_if_error": 60},
    ],
)
def test_a_cache_control_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        cache_control(**wrong)


async def test_a_route_caches_what_says_nothing_and_leaves_alone_what_does() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/a", ttl=10, stale_ttl=20)]) as fleet:
        await fleet.get("/a")
        assert "hit; ttl=10" in status_of(await fleet.get("/a"))
        await fleet.get("/b")
        assert "hit" not in status_of(await fleet.get("/b"))
        fleet.clock.advance(15)
        assert "hit; ttl=-5" in status_of(await fleet.get("/a"))
        await fleet.settled()
        assert (await fleet.get("/a")).body == b"answer 4"
        app.headers = {"cache-control": "no-store"}
        fleet.clock.advance(60)
        await fleet.get("/a")
        assert "hit" not in status_of(await fleet.get("/a"))


@pytest.mark.parametrize("field", ["cookie", "authorization", "x_api_key"])
async def test_requests_with_credentials_go_past_a_route_in_both_directions(field: str) -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=10)]) as fleet:
        mine = await fleet.get("/", **{field: "me"})
        others = await fleet.get("/")
        assert {mine.body, others.body} == {b"answer 1", b"answer 2"}
        assert (await fleet.get("/")).body == b"answer 2"
        assert (await fleet.get("/", **{field: "me"})).body == b"answer 3"


async def test_cookies_are_ignored_where_the_route_says_so() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=10, cookies="ignore")]) as fleet:
        await fleet.get("/", cookie="a")
        assert (await fleet.get("/", cookie="b")).body == b"answer 1"
        assert (await fleet.get("/", cookie="b", authorization="x")).body == b"answer 2"


@pytest.mark.parametrize(
    ("query", "same", "other"),
    [
        ("sorted", "/?b=2&a=1", "/?a=2&b=1"),
        ("verbatim", "/?a=1&b=2", "/?b=2&a=1"),
        ("ignore", "/?c=7", None),
        (("a",), "/?b=9&a=1", "/?a=2&b=2"),
    ],
)
async def test_the_query_counts_as_the_route_says(query: Any, same: str, other: str | None) -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=10, query=query)]) as fleet:
        await fleet.get("/?a=1&b=2")
        assert (await fleet.get(same)).body == b"answer 1"
        if other is not None:
            assert (await fleet.get(other)).body == b"answer 2"


async def test_of_two_parameters_with_one_name_the_order_counts() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=10)]) as fleet:
        await fleet.get("/?a=1&a=2")
        assert (await fleet.get("/?a=2&a=1")).body == b"answer 2"


async def test_a_routes_own_vary_and_key_are_part_of_the_key_and_go_with_a_put() -> None:
    app = App({})
    tenant = {"value": "t1"}
    route = CacheRoute("/*", ttl=10, vary=("accept-language",), key=lambda scope: tenant["value"])
    async with Fleet(app, routes=[route]) as fleet:
        assert (await fleet.get(accept_language="de")).body == b"answer 1"
        assert (await fleet.get(accept_language="en")).body == b"answer 2"
        assert (await fleet.get(accept_language="DE")).body == b"answer 1"
        assert (await fleet.get(accept_language="en")).body == b"answer 2"
        tenant["value"] = "t2"
        assert (await fleet.get(accept_language="de")).body == b"answer 3"
        await fleet.get(method="PUT")
        assert (await fleet.get(accept_language="de")).body == b"answer 5"


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_a_route_stores_no_error_and_no_passing_redirection(status: int) -> None:
    app = App({}, status=status)
    async with Fleet(app, routes=[CacheRoute("/*", ttl=10)]) as fleet:
        await fleet.get()
        assert "hit" not in status_of(await fleet.get())


async def test_a_route_stores_nothing_that_sets_a_cookie() -> None:
    app = App({"set-cookie": "a=b"})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=10)]) as fleet:
        await fleet.get()
        assert "hit" not in status_of(await fleet.get())
