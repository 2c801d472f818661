"""Cache poisoning and deception: nobody makes others be served what was answered to something else."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import CacheRoute
from stampede_guard.http.requests.entries import base_name, target_of
from tests.http.asgi import request, scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.inside import store_of

PATH_TRICKS = [
    "/account/x.css",
    "/account/..%2fstatic/x.css",
    "/static/%2e%2e/account",
    "/static/../account",
    "//account",
    "/account//",
    "/account/",
    "/account;x.css",
    "/account%3fx.css",
    "/account%00.css",
    "/account%23.css",
    "/ACCOUNT",
    "/%61ccount",
    "/account\\x.css",
    "/account?x.css",
    "http://example.test/account",
    "http://evil.test/account",
]


async def sent(fleet: Fleet, scope: Any) -> tuple[int, bytes, str]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await fleet.middlewares[0](scope, receive, send)
    fields = dict(messages[0]["headers"])
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return messages[0]["status"], body, fields.get(b"cache-status", b"").decode()


def echoing(*names: str, headers: dict[str, str] | None = None) -> App:
    """Answers with what it was asked: path, query and these fields."""
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        fields = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        told = [scope["path"], scope["query_string"].decode(), *(fields.get(name, "-") for name in names)]
        await start(send, cached() if headers is None else headers)
        await send({"type": "http.response.body", "body": " ".join(told).encode("latin-1")})

    app.handler = handler
    return app


@pytest.mark.parametrize("path", PATH_TRICKS)
async def test_no_spelling_of_a_path_is_served_what_another_was_answered(path: str) -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        assert (await fleet.get("/account")).body == b"answer 1"
        assert (await fleet.get(path)).body == b"answer 2"
        assert (await fleet.get("/account")).body == b"answer 1"


def test_all_spellings_have_names_of_their_own() -> None:
    names = set()
    for path in [*PATH_TRICKS, "/account"]:
        scope = scope_of("GET", path, [])
        target = target_of(scope, tuple(scope["headers"]))
        if path.startswith("http:"):
            assert target is None
        else:
            assert target is not None
            names.add(base_name("p", target))
    assert len(names) == len(PATH_TRICKS) - 2 + 1


@pytest.mark.parametrize("path", [path for path in PATH_TRICKS if "?" not in path and path != "/ACCOUNT"])
async def test_a_private_page_does_not_become_a_style_sheet(path: str) -> None:
    app = App({})
    routes = [CacheRoute("/*.css", ttl=60), CacheRoute("/static/*", ttl=60)]
    async with Fleet(app, routes=routes) as fleet:
        assert (await fleet.get(path, cookie="session=victim")).body == b"answer 1"
        assert (await fleet.get(path)).body == b"answer 2"
        assert (await fleet.get(path)).body == b"answer 3"


async def test_a_page_under_a_wide_route_stays_its_visitors() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60)]) as fleet:
        assert (await fleet.get("/account/x.css", cookie="session=victim")).body == b"answer 1"
        assert (await fleet.get("/account/x.css")).body == b"answer 2"
        assert (await fleet.get("/account/x.css", cookie="session=victim")).body == b"answer 3"


@pytest.mark.parametrize(
    "host",
    [
        "example.test/account",
        "example.test?",
        "example.test#",
        "user@example.test",
        "",
        " ",
        "a b",
        "a\\b",
        "[::1",
    ],
)
async def test_a_host_that_is_no_host_shares_no_entry(host: str) -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        assert (await fleet.get("/account/x")).body == b"answer 1"
        for expected in (b"answer 2", b"answer 3"):
            assert (await fleet.get("/x", host=host)).body == expected
        assert (await fleet.get("/account/x")).body == b"answer 1"


@pytest.mark.parametrize(
    "host", ["example.test:8080", "EXAMPLE.test:8080", "127.0.0.1", "[::1]:80", "b\u00fc.test"]
)
async def test_hosts_have_entries_of_their_own(host: str) -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        await fleet.get("/")
        assert (await fleet.get("/", host=host)).body == b"answer 2"
        assert (await fleet.get("/")).body == b"answer 1"


async def test_http_and_https_have_entries_of_their_own() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        await fleet.get("/")
        scope = scope_of("GET", "/", []) | {"scheme": "https"}
        assert (await sent(fleet, scope))[1] == b"answer 2"


async def test_where_a_server_tells_only_the_decoded_path_a_question_mark_in_it_begins_no_query() -> None:
    app = echoing()
    async with Fleet(app) as fleet:
        for path in ("/a?b", "/a", "/a%3fb"):
            scope = scope_of("GET", "/", []) | {"path": path}
            del scope["raw_path"]
            for _ in range(2):
                assert (await sent(fleet, scope))[1] == f"{path} ".encode()
        assert app.calls == 3


@pytest.mark.parametrize("cut", [True, False], ids=["cut off", "in the path"])
async def test_what_is_mounted_twice_has_entries_of_its_own_where_a_server_tells_only_the_decoded_path(
    cut: bool,
) -> None:
    app = echoing()
    async with Fleet(app) as fleet:
        for root in ("/one", "/two", "/on", ""):
            path = "/e/7" if cut else f"{root}/e/7"
            scope = scope_of("GET", "/", []) | {"path": path, "root_path": root}
            del scope["raw_path"]
            for _ in range(2):
                assert (await sent(fleet, scope))[1] == f"{path} ".encode()
        assert app.calls == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("page=1", "%70age=2"),
        ("", "%70age=2"),
        ("page=1&%70age=2", "%70age=2&page=1"),
        ("page=1&page=2", "%70age=2&page=1"),
        ("page=1&page=2", "page=2&%70age=1"),
        ("", "page=7"),
        ("", "page"),
        ("page=1", "page=1&page=2"),
        ("page=1", "page=%31"),
    ],
)
@pytest.mark.parametrize("query", ["sorted", ("page",)])
async def test_a_parameter_that_counts_counts_however_its_name_is_written(
    one: str, other: str, query: Any
) -> None:
    app = echoing(headers={})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, query=query)]) as fleet:
        for _ in range(2):
            for given in (one, other):
                answer = await fleet.get(f"/list?{given}")
                assert answer.body == f"/list {given}".encode()
        assert app.calls == 2


async def test_a_get_with_a_body_is_the_applications_and_nothing_of_it_is_stored() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        for fields in ({"content_length": "5"}, {"transfer_encoding": "chunked"}, {"content_length": "5, 5"}):
            answer = await fleet.get(**fields)
            assert "fwd=bypass" in status_of(answer)
        before = app.calls
        assert (await fleet.get()).body == b"answer %d" % (before + 1)


async def test_what_two_servers_may_take_for_two_requests_is_not_cached() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        scope = scope_of("GET", "/", [("content-length", "0"), ("content-length", "44")])
        for _ in range(2):
            assert "hit" not in (await sent(fleet, scope))[2]
        assert (await fleet.get()).body == b"answer 3"


@pytest.mark.parametrize("status", [400, 413, 431, 500, 501])
async def test_an_error_that_one_client_provoked_is_nobody_elses(status: int) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        long = any(len(value) > 1000 for _, value in scope["headers"])
        await start(send, {}, status if long else 200)
        await send({"type": "http.response.body", "body": b"?"})

    app.handler = handler
    for routes in ([], [CacheRoute("/*", ttl=60)]):
        async with Fleet(app, routes=routes) as fleet:
            assert (await fleet.get(x_oversized="x" * 2000)).status == status
            assert (await fleet.get()).status == 200


@pytest.mark.parametrize(
    ("fields", "status"), [({"if_match": '"x"'}, 412), ({"range": "bytes=9-"}, 416), ({"expect": "x"}, 417)]
)
async def test_an_answer_to_ones_own_conditions_is_not_stored_whatever_it_says(
    fields: dict[str, str], status: int
) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        names = {name.decode().replace("-", "_") for name, _ in scope["headers"]}
        await start(send, cached(), status if names & set(fields) else 200)
        await send({"type": "http.response.body", "body": b"?"})

    app.handler = handler
    async with Fleet(app) as fleet:
        assert (await fleet.get(**fields)).status == status
        assert (await fleet.get()).status == 200


async def test_a_field_in_vary_is_in_the_key_and_one_that_is_only_echoed_is_for_its_author_to_name() -> None:
    app = echoing("x-forwarded-host", headers=cached(vary="x-forwarded-host"))
    async with Fleet(app) as fleet:
        assert b"evil" in (await fleet.get(x_forwarded_host="evil")).body
        assert b"evil" not in (await fleet.get()).body
    app = echoing("x-forwarded-host", headers={})
    route = CacheRoute("/*", ttl=60, vary=("X-Forwarded-Host",))
    async with Fleet(app, routes=[route]) as fleet:
        assert b"evil" in (await fleet.get(x_forwarded_host="evil")).body
        assert b"evil" not in (await fleet.get()).body


async def test_two_lines_of_a_field_in_vary_are_not_the_one_line_that_they_would_be_together() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        # As frameworks do: the first one.
        agent = next(value for name, value in scope["headers"] if name == b"user-agent")
        await start(send, cached(vary="user-agent"))
        await send({"type": "http.response.body", "body": agent})

    app.handler = handler
    agent = "Browser/5.0 (KHTML, like Gecko)"
    async with Fleet(app) as fleet:
        for _ in range(2):
            told = [("user-agent", part) for part in agent.split(", ")]
            assert (
                await request(fleet.middlewares[0], "GET", "/", fields=told)
            ).body == b"Browser/5.0 (KHTML"
            assert (await fleet.get(user_agent=agent)).body == agent.encode()
        assert app.calls == 2


@pytest.mark.parametrize("name", ["x-badge", "x_badge", "proxy_authorization"])
async def test_credentials_of_ones_own_choice_count_however_their_name_is_written(name: str) -> None:
    async with Fleet(echoing(name), credential_headers=("X-Badge",)) as fleet:
        for said in ("ann", "bob"):
            scope = scope_of("GET", "/account", [(name, said)])
            assert (await sent(fleet, scope))[1] == f"/account  {said}".encode()


@pytest.mark.parametrize("name", ["x-badge", "x_badge"])
async def test_so_do_the_fields_that_name_a_user(name: str) -> None:
    async with Fleet(echoing(name), private_to="header:x-badge") as fleet:
        for said in ("ann", "bob"):
            scope = scope_of("GET", "/account", [(name, said)])
            assert (await sent(fleet, scope))[1] == f"/account  {said}".encode()


async def test_a_port_that_a_proxys_scheme_does_not_have_is_in_the_key() -> None:
    app = echoing("host", headers=cached())
    async with Fleet(app) as fleet:
        for _ in range(2):
            for host in ("shop.test:80", "shop.test"):
                answer = await fleet.get(host=host, x_forwarded_proto="https")
                assert answer.body.endswith(host.encode())
        assert app.calls == 2


async def test_a_parameter_behind_a_semicolon_is_in_the_key() -> None:
    app = echoing(headers={})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, query=("page",))]) as fleet:
        for given in ("page=1&from=x;page=2", "page=1", "page=1&from=x"):
            answer = await fleet.get(f"/list?{given}")
            assert answer.body == f"/list {given.removesuffix('&from=x')}".encode()


async def test_a_parameter_that_is_not_escaped_is_in_the_key_of_a_route() -> None:
    """An application reads its bytes as UTF-8, and then it may be one that the route lists."""
    async with Fleet(App({}), routes=[CacheRoute("/*", ttl=60, query=("é",))]) as fleet:
        for number, given in enumerate(("", "?\xc3\xa9=1", "?%C3%A9=1"), 1):
            assert (await fleet.get(f"/list{given}")).body == b"answer %d" % number


async def test_thousands_of_queries_leave_nothing_behind_in_the_process() -> None:
    app = App({"cache-control": "private"})
    async with Fleet(app) as fleet:
        for number in range(4200):
            await fleet.get(f"/?q={number}")
        await fleet.settled()
        cache = fleet.middlewares[0].cache
        assert len(cache.marks._marks) <= 4096
        assert not cache._waiting
        assert not cache._tasks
        assert not fleet.guards[0].engine.runtime().flights


async def test_thousands_of_queries_are_one_entry_where_the_route_knows_which_count() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, query=("page",))]) as fleet:
        for number in range(2000):
            await fleet.get(f"/?page=1&utm={number}")
        assert app.calls == 1


async def test_a_vary_on_a_random_field_fills_no_more_than_the_places_of_its_url_whatever_its_length() -> (
    None
):
    app = App(cached(vary="x-random"))
    async with Fleet(app, variants=8) as fleet:
        for number in range(200):
            answer = await fleet.get(x_random=f"{number}" * 4000)
            assert answer.body == b"answer %d" % (number + 1)
        store: Any = store_of(fleet.guards[0])
        assert len(store) <= 9 + 1, "the variants, and what groups of responses need"
        values = [entry.value for entry in store._entries.values() if entry.value is not None]
        assert sum(len(value.body) for value in values) < 9 * 1000


async def test_two_middlewares_share_nothing_whatever_they_are_called() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60)]) as fleet:
        own = fleet.middlewares[0].cache
        for name in ("r", "http", "r:", "http://example.test"):
            async with Fleet(app, on=store_of(fleet.guards[0]), name=name) as other:
                keys = {
                    base_name(middleware.cache.prefix, target, route=route)
                    for middleware in (*fleet.middlewares, *other.middlewares)
                    for route in (None, CacheRoute("/*", ttl=60))
                    if (target := target_of(scope_of("GET", "/", []), ((b"host", b"a"),))) is not None
                }
                assert len(keys) == 4
        assert own.prefix == "http3:"


@pytest.mark.parametrize("lines", [["inside", "shop.example"], ["shop.example", "inside"]])
async def test_a_second_line_about_the_host_shares_no_entry_with_those_who_send_one(lines: list[str]) -> None:
    """A proxy adds its line to the one of the client, which names the host that the application itself has."""
    app = App(cached())
    async with Fleet(app) as fleet:
        for number, told in enumerate((lines, lines[::-1], ["shop.example"]), 1):
            fields = [("host", "inside"), *(("x-forwarded-host", line) for line in told)]
            answer = await request(fleet.middlewares[0], "GET", "/", fields=fields)
            assert answer.body == b"answer %d" % number


def of_wsgi(vary: str) -> App:
    """Answers with its Accept-Language, as CGI and WSGI read it: underscores are dashes, and lines are one."""
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        lines = [value for name, value in scope["headers"] if name.replace(b"_", b"-") == b"accept-language"]
        await start(send, cached(vary=vary) if vary else {})
        await send({"type": "http.response.body", "body": b",".join(lines)})

    app.handler = handler
    return app


@pytest.mark.parametrize("vary", ["Accept-Language", ""], ids=["Vary", "a route's vary"])
async def test_a_field_with_underscores_is_in_the_key_as_its_dashed_name_is(vary: str) -> None:
    routes = [] if vary else [CacheRoute("/*", ttl=60, vary=("accept-language",))]
    spellings: list[list[tuple[str, str]]] = [
        [("accept-language", "en"), ("accept_language", "evil")],
        [("accept_language", "evil"), ("accept-language", "en")],
        [("accept_language", "evil")],
        [("accept-language", "en")],
        [],
    ]
    async with Fleet(of_wsgi(vary), routes=routes) as fleet:
        for fields in spellings * 2:
            answer = await request(fleet.middlewares[0], "GET", "/", fields=fields)
            assert answer.body == ",".join(value for _, value in fields).encode()
