"""`exclude` and `only`: which requests the middleware leaves to the application, and what it still does for them."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import StampedeMiddleware
from stampede_guard.errors import Misuse
from stampede_guard.http.requests.paths import PathFilter
from tests.http.asgi import request, scope_of
from tests.http.fleet import App, Fleet, cached, status_of
from tests.support.counted import counted


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/admin/users", True),
        ("/admin/", True),
        ("/admin", False),
        ("/users/7/private", True),
        ("/users/7/8/private", False),
        ("/%61dmin/users", True),
        ("/admin/../reports", True),
        ("/reports/7?/admin/", False),
        ("/", False),
    ],
)
def test_excluded_paths_are_left_to_the_application_however_they_are_spelt(path: str, left: bool) -> None:
    rule = PathFilter(("/admin/*", "/users/*/private"), None)
    scope = scope_of("GET", path, [])
    scope["path"] = scope["path"].replace("%61", "a")
    assert rule.leaves(scope) is left
    if "%" not in path:
        del scope["raw_path"]
        assert rule.leaves(scope) is left


@pytest.mark.parametrize(
    ("path", "left"),
    [("/reports/7", False), ("/other", True), ("/reports/../other", True), ("/reports/%2e", True)],
)
def test_with_only_all_other_paths_are_left_and_those_that_another_server_may_read_differently(
    path: str, left: bool
) -> None:
    assert PathFilter((), ("/reports/*",)).leaves(scope_of("GET", path, [])) is left


def test_exclude_goes_before_only() -> None:
    rule = PathFilter(("/reports/private/*",), ("/reports/*",))
    assert rule.leaves(scope_of("GET", "/reports/private/7", []))
    assert not rule.leaves(scope_of("GET", "/reports/7", []))


def test_a_long_path_takes_linear_time() -> None:
    rule = PathFilter(("/a*b/c*d",), ("/*x/*y",))
    assert rule.leaves(scope_of("GET", "/" + "a" * 100_000 + "/" + "b" * 100_000, []))


@pytest.mark.parametrize(
    "wrong",
    [
        {"exclude": "/a"},
        {"exclude": ("a",)},
        {"exclude": (1,)},
        {"exclude": ("/{id}",)},
        {"only": ()},
        {"only": ("/a?b",)},
    ],
)
def test_a_rule_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match=next(iter(wrong))):
        StampedeMiddleware(App(), **wrong)


async def test_an_excluded_request_reaches_the_application_as_if_the_middleware_were_absent() -> None:
    app = App(cached())
    async with Fleet(app, exclude=("/admin/*",)) as fleet:
        scope = scope_of("GET", "/admin/x", [])
        with counted() as calls:
            await fleet.middlewares[0](scope, None, _nothing)  # type: ignore[arg-type]
        assert app.scopes == [scope] and app.scopes[0] is scope
        assert len(calls) == 3, calls
        for _ in range(2):
            assert status_of(await fleet.get("/admin/x")) == ""
        assert app.calls == 3
        assert "; stored" in status_of(await fleet.get("/reports"))


async def _nothing(message: Any) -> None:
    return None


async def test_no_guard_is_needed_for_what_is_excluded() -> None:
    middleware = StampedeMiddleware(App(cached()), exclude=("/*",))
    await request(middleware, "GET", "/a")
    assert middleware._cache is None


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("location", "/reports/7"),
        ("cache-group-invalidation", '"a"'),
        ("content-location", "http://example.test/reports/7"),
    ],
)
async def test_a_change_at_an_excluded_path_still_invalidates_the_pages_that_it_names(
    field: str, path: str
) -> None:
    """RFC 9111, 4.4. At its own URL nothing is stored."""
    app = App(cached(cache_groups='"a"'))
    async with Fleet(app, exclude=("/admin/*",)) as fleet:
        await fleet.get("/reports/7")
        app.headers = {field: path}
        app.status = 201
        answer = await fleet.get("/admin/reports", method="POST")
        assert status_of(answer) == ""
        app.headers, app.status = cached(), 200
        assert "; stored" in status_of(await fleet.get("/reports/7"))


@pytest.mark.parametrize(
    "proxy",
    [{"x_forwarded_proto": "https"}, {"x_forwarded_host": "shop.example"}, {"forwarded": "proto=https"}],
)
async def test_a_change_behind_a_proxy_invalidates_what_is_stored_for_that_proxy(
    proxy: dict[str, str],
) -> None:
    """What a proxy says of a URL belongs to the entry's name, of a question's, too."""
    app = App(cached())
    async with Fleet(app, exclude=("/admin/*",)) as fleet:
        for method in ("GET", "QUERY"):
            await fleet.get("/reports/7", method=method, **proxy)
            assert "; hit" in status_of(await fleet.get("/reports/7", method=method, **proxy))
        app.headers = {"location": "/reports/7"}
        await fleet.get("/admin/reports", method="POST", **proxy)
        app.headers = cached()
        for method in ("GET", "QUERY"):
            assert "; stored" in status_of(await fleet.get("/reports/7", method=method, **proxy))


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (201, {}),
        (201, {"location": "/admin/8"}),
        (201, {"location": "http://other.test/reports/7"}),
        (400, {"location": "/reports/7"}),
    ],
)
async def test_no_command_is_sent_for_a_change_that_names_no_stored_page(
    status: int, headers: dict[str, str]
) -> None:
    app = App(headers, status=status)
    async with Fleet(app, exclude=("/admin/*",)) as fleet:
        with counted() as calls:
            await fleet.get("/admin/reports", method="POST")
        assert not [name for name in calls if name.startswith(("Cache.invalidate", "Engine."))]


async def test_the_fields_of_an_excluded_answer_may_be_any_iterable() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        headers = ((name, b"/") for name in (b"location", b"x-last"))
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app, exclude=("/admin/*",)) as fleet:
        answer = await fleet.get("/admin/reports", method="POST")
        assert (answer.get("location"), answer.get("x-last")) == ("/", "/")
