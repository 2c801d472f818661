"""Where a request came from must not hide what a change reaches: proxies, mounts, rewritten paths, a route's key."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.asgi import scope_of
from tests.http.fleet import App, Fleet, start
from tests.http.test_traps_poisoning import echoing, sent

ITEM = "/items/7"


def shop(lifetime: str = "max-age=60", location: str = ITEM) -> App:
    """Its answers say how many changes there were before them."""
    app = App()
    changes = 0

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        nonlocal changes
        fields = {"cache-control": lifetime, "cache-groups": '"item"'} if lifetime else {}
        if scope["method"] not in ("GET", "HEAD"):
            changes += 1
            fields = {"location": location} if scope["path"].endswith("/items") else {}
            if scope["path"].endswith("/group"):
                fields = {"cache-group-invalidation": '"item"'}
        await start(send, fields)
        await send({"type": "http.response.body", "body": b"after %d" % changes})

    app.handler = handler
    return app


async def asked(
    fleet: Fleet, path: str, method: str = "GET", root: str = "", cut: bool = True, **fields: str
) -> bytes:
    """`cut`: also off `raw_path`."""
    pairs = [(name.replace("_", "-"), value) for name, value in fields.items()]
    scope = scope_of(method, path if cut else f"{root}{path}", pairs) | {"path": path, "root_path": root}
    return (await sent(fleet, scope))[1]


CHANGES = {"its own URL": ("PUT", ITEM), "a Location": ("POST", "/items"), "a group": ("POST", "/group")}


def azure(path: str, tls: str) -> dict[str, str]:
    """Azure App Service, in front of every request."""
    fields = {"x_original_url": path, "x_waws_unencoded_url": path, "x_forwarded_proto": "https"}
    return fields | {"x_forwarded_tlsversion": tls, "x_appservice_proto": "https", "x_arr_ssl": f"2048|{tls}"}


PROXIES: dict[str, Any] = {
    "azure": azure,
    "the client's TLS": lambda path, tls: {"x_forwarded_tlsversion": tls},
    "the path": lambda path, tls: {"x_original_url": path},
    "envoy": lambda path, tls: {"x_envoy_original_path": f"/api{path}"},
    "one of several": lambda path, tls: {"x_forwarded_server": f"node{tls}", "x_forwarded_proto": "https"},
    "scheme": lambda path, tls: {"x_forwarded_proto": "https"},
    "prefix": lambda path, tls: {"x_forwarded_prefix": "/shop"},
}


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("other", [False, True], ids=["alike", "another client"])
async def test_a_change_reaches_its_entries_whatever_a_proxy_tells_of_each_request(
    proxy: str, change: str, other: bool
) -> None:
    method, path = CHANGES[change]
    async with Fleet(shop()) as fleet:
        assert await asked(fleet, ITEM, **PROXIES[proxy](ITEM, "1.3")) == b"after 0"
        await asked(fleet, path, method, **PROXIES[proxy](path, "1.2" if other else "1.3"))
        assert await asked(fleet, ITEM, **PROXIES[proxy](ITEM, "1.3")) == b"after 1"


TOLD: dict[str, Any] = {
    "scheme": ({"x_forwarded_proto": "https"}, f"https://example.test{ITEM}"),
    "scheme and port": ({"x_forwarded_proto": "https"}, f"https://example.test:443{ITEM}"),
    "another port": ({"x_forwarded_port": "8443", "x_scheme": "https"}, f"https://example.test:8443{ITEM}"),
    "host": ({"x_forwarded_host": "shop.example"}, f"http://Shop.example{ITEM}"),
    "host, by the name within": ({"x_forwarded_host": "shop.example"}, f"http://example.test{ITEM}"),
    "host with a port": ({"x_forwarded_host": "shop.example:81"}, f"http://shop.example:81{ITEM}"),
    "two in a row": (
        {"x_forwarded_host": "shop.example, in", "x_forwarded_proto": "https, http"},
        f"https://shop.example{ITEM}",
    ),
    "forwarded": (
        {"forwarded": 'for=1.2.3.4;host="shop.example";proto=https'},
        f"https://shop.example{ITEM}",
    ),
    "cloudflare": ({"cf_visitor": '{"scheme":"https"}'}, f"https://example.test{ITEM}"),
    "iis": ({"front_end_https": "on"}, f"https://example.test{ITEM}"),
    "prefix": ({"x_forwarded_prefix": "/api/"}, f"/api{ITEM}"),
    "script name": ({"x_script_name": "/api"}, f"http://example.test/api{ITEM}"),
    "all": (
        {"x_forwarded_host": "shop.example", "x_forwarded_proto": "https", "x_forwarded_prefix": "/api"},
        f"https://shop.example/api{ITEM}",
    ),
    "nothing, for a user": ({}, f"http://me@example.test{ITEM}"),
}


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("stored", [True, False], ids=["", "on a path of its own"])
async def test_a_location_is_on_the_site_that_the_proxy_tells(told: str, stored: bool) -> None:
    fields, location = TOLD[told]
    options: dict[str, Any] = {} if stored else {"only": ("/items/*",)}
    async with Fleet(shop(location=location), **options) as fleet:
        assert await asked(fleet, ITEM, **fields) == b"after 0"
        await asked(fleet, "/items", "POST", **fields)
        assert await asked(fleet, ITEM, **fields) == b"after 1"


ELSEWHERE: dict[str, Any] = {
    "another host": ({"x_forwarded_host": "shop.example"}, f"http://other.example{ITEM}"),
    "another scheme": ({"x_forwarded_host": "shop.example"}, f"https://shop.example{ITEM}"),
    "another port": ({"x_forwarded_proto": "https"}, f"https://example.test:8443{ITEM}"),
    "no port": ({"x_forwarded_proto": "https"}, f"https://example.test:port{ITEM}"),
    "no host": ({"x_forwarded_host": "[", "x_forwarded_port": "x"}, f"http://other.example{ITEM}"),
    "another prefix": ({"x_forwarded_prefix": "/ap"}, f"/api{ITEM}"),
    "no prefix": ({"x_forwarded_prefix": "api"}, f"/api{ITEM}"),
}


@pytest.mark.parametrize("told", ELSEWHERE)
async def test_a_location_elsewhere_changes_nothing_here(told: str) -> None:
    fields, location = ELSEWHERE[told]
    async with Fleet(shop(location=location)) as fleet:
        assert await asked(fleet, ITEM, **fields) == b"after 0"
        await asked(fleet, "/items", "POST", **fields)
        assert await asked(fleet, ITEM, **fields) == b"after 0"


async def test_a_port_beyond_all_ports_in_host_breaks_no_response() -> None:
    async with Fleet(shop(location=f"https://example.test{ITEM}")) as fleet:
        fields: Any = {"host": "example.test:99999", "x_forwarded_proto": "https"}
        assert await asked(fleet, "/items", "POST", **fields) == b"after 1"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", ["x_forwarded_host", "x_forwarded_prefix"])
async def test_a_change_on_one_site_behind_a_proxy_leaves_the_other_sites_entries(
    change: str, place: str
) -> None:
    method, path = CHANGES[change]
    async with Fleet(shop()) as fleet:
        assert await asked(fleet, ITEM, **{place: "/one"}) == b"after 0"
        await asked(fleet, path, method, **{place: "/two"})
        assert await asked(fleet, ITEM, **{place: "/one"}) == b"after 0"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("cut", [True, False], ids=["cut off", "in the raw path"])
@pytest.mark.parametrize("location", [ITEM, f"/api{ITEM}"])
async def test_a_change_reaches_the_entries_of_what_is_mounted(change: str, cut: bool, location: str) -> None:
    if not cut and location == ITEM:
        location = f"http://example.test/api{ITEM}"
    method, path = CHANGES[change]
    async with Fleet(shop(location=location)) as fleet:
        assert await asked(fleet, ITEM, root="/api", cut=cut) == b"after 0"
        await asked(fleet, path, method, root="/api", cut=cut)
        assert await asked(fleet, ITEM, root="/api", cut=cut) == b"after 1"


@pytest.mark.parametrize("whole", [False, True], ids=["cut off", "in the path"])
async def test_what_is_mounted_twice_has_entries_of_its_own_where_the_raw_path_is_cut(whole: bool) -> None:
    app = echoing()
    inner = app.handler
    assert inner is not None

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await inner(scope | {"path": f"{scope['root_path']} {scope['path']}"}, receive, send, number)

    app.handler = handler
    async with Fleet(app) as fleet:
        for root in ("/one", "/two", "/on", ""):
            path = f"{root}/e/7" if whole else "/e/7"
            scope = scope_of("GET", "/e/7", []) | {"path": path, "root_path": root}
            for _ in range(2):
                assert (await sent(fleet, scope))[1] == f"{root} {path} ".encode()
        assert app.calls == 4


async def test_a_root_that_the_raw_path_has_already_counts_once() -> None:
    app = App()
    async with Fleet(app) as fleet:
        for path, root in (("/caf%C3%A9/e", "/café"), ("/caf%C3%A9/e", "")):
            scope = scope_of("GET", path, []) | {"path": "/café/e", "root_path": root}
            assert (await sent(fleet, scope))[1] == b"answer 1"


async def test_a_route_matches_below_a_root_that_the_raw_path_lacks() -> None:
    """FastAPI(root_path="/api") behind a proxy that cuts it off: the patterns of routes are what they were."""
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/items/*", ttl=60)]) as fleet:
        for _ in range(2):
            assert await asked(fleet, ITEM, root="/api") == b"answer 1"


def language(scope: Any) -> str:
    return dict(scope["headers"]).get(b"x-lang", b"").decode()


def language_of_a_get(scope: Any) -> str | None:
    return language(scope) if scope["method"] in ("GET", "HEAD") else None


@pytest.mark.parametrize("key", [language, language_of_a_get])
@pytest.mark.parametrize("change", ["its own URL", "a Location"])
@pytest.mark.parametrize("processes", [1, 2])
async def test_a_change_reaches_the_entries_of_all_keys_of_a_route(
    key: Any, change: str, processes: int
) -> None:
    method, path = CHANGES[change]
    route = CacheRoute("/items/*", ttl=60, key=key)
    async with Fleet(shop(lifetime=""), routes=[route], processes=processes) as fleet:
        for lang in ("de", "fr"):
            assert (await fleet.get(ITEM, x_lang=lang)).body == b"after 0"
            assert "hit" in ((await fleet.get(ITEM, x_lang=lang)).get("cache-status") or "")
        await fleet.get(path, method=method, process=processes - 1, x_lang="en")
        for lang in ("de", "fr"):
            assert (await fleet.get(ITEM, x_lang=lang)).body == b"after 1"
