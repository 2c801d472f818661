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
