"""Attacks on the HTTP cache with its defaults: each a sequence of requests to a real uvicorn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.fleet import App, cached, start
from tests.support.gate import until
from tests.support.inside import store_of
from tests.traps.web import Reply, Site, serving

MODIFIED = {"last-modified": "Wed, 01 Jan 2020 00:00:00 GMT"}


def telling(app: App, answer: Any) -> App:
    """`answer(fields, number)` gives headers, status and body."""

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        given = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        headers, status, body = answer(given, number)
        await start(send, headers, status)
        await send({"type": "http.response.body", "body": body})

    app.handler = handler
    return app


async def at_once(site: Site, count: int, *, behind: int = 1, **fields: str) -> list[Reply]:
    """A herd that waits for the call under way, and the answers when it goes on."""
    herd = [asyncio.ensure_future(site.ask(**fields)) for _ in range(count)]
    runtime = site.guard.engine.runtime()
    await until(lambda: sum(flight.joined for flight in runtime.flights.values()) >= count + behind)
    site.app.go.set()
    async with asyncio.timeout(60):
        return await asyncio.gather(*herd)


# ---------------------------------------------------------------------------------- what nobody declared to be for all


@pytest.mark.parametrize("field", ["x_token", "x_anything", "x_user", "dpop", "authorization", "cookie"])
@pytest.mark.parametrize("options", [{}, {"heuristics": True}], ids=["default", "heuristics"])
async def test_a_file_behind_a_check_is_not_served_to_a_stranger(field: str, options: dict[str, Any]) -> None:
    name = field.replace("_", "-")

    def answer(fields: dict[str, str], number: int) -> Any:
        if fields.get(name) == "right":
            return MODIFIED | {"etag": '"a"'}, 200, b"secret"
        return {}, 403, b"no"

    async with serving(telling(App(), answer), **options) as site:
        assert (await site.ask(**{field: "right"})).body == b"secret"
        for asked in ({}, {"cache_control": "max-stale"}, {"cache_control": "only-if-cached"}):
            assert (await site.ask(**asked)).body != b"secret"


@pytest.mark.parametrize("headers", [MODIFIED, {"etag": '"a"'}, {}, MODIFIED | {"etag": '"a"'}])
async def test_without_a_word_about_caching_nothing_is_stored(headers: dict[str, str]) -> None:
    async with serving(App(headers)) as site:
        bodies = [(await site.ask(cache_control="max-stale")).body for _ in range(3)]
        assert bodies == [b"answer 1", b"answer 2", b"answer 3"]


async def test_a_deploy_is_seen_at_once_where_no_lifetime_was_declared() -> None:
    app = App(MODIFIED)
    async with serving(app) as site:
        await site.ask("/index.html")
        app.headers = {"last-modified": "Thu, 02 Jan 2020 00:00:00 GMT"}
        assert (await site.ask("/index.html")).body == b"answer 2"


async def test_what_was_guessed_is_for_requests_without_fields_of_their_own() -> None:
    app = App(MODIFIED)
    async with serving(app, heuristics=True) as site:
        await site.ask()
        assert (await site.ask(user_agent="x", accept="*/*")).is_hit
        assert (await site.ask(x_tenant="b")).body == b"answer 2"
        assert (await site.ask()).body == b"answer 1"


# ----------------------------------------------------------------------------------------------------- cookies, tokens

FOR_ONE = [
    "set-cookie",
    "set-cookie2",
    "x-csrf-token",
    "authentication-info",
    "x-auth-token",
    "clear-site-data",
]


@pytest.mark.parametrize("name", FOR_ONE)
@pytest.mark.parametrize("control", ["max-age=60", "public, max-age=60", "s-maxage=60"])
async def test_two_clients_never_share_what_was_handed_to_one(name: str, control: str) -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        return {"cache-control": control, name: f"{number}"}, 200, b"page"

    for options in ({}, {"set_cookie": "strip"}, {"routes": [CacheRoute("/*", ttl=60)]}):
        async with serving(telling(App(), answer), **options) as site:
            assert (await site.ask()).fields[name] == "1"
            assert (await site.ask()).fields.get(name) != "1"


async def test_stripped_of_its_cookie_it_is_stored_and_its_own_client_has_the_cookie() -> None:
    app = App(cached(set_cookie="a=1", content_length="8"))
    app.go.clear()
    async with serving(app, set_cookie="strip") as site:
        first = asyncio.ensure_future(site.ask())
        await app.called.wait()
        answers = await at_once(site, 10)
        assert (await first).fields["set-cookie"] == "a=1"
        assert {(answer.body, answer.fields.get("set-cookie")) for answer in answers} == {(b"answer 1", None)}
        assert app.calls == 1


@pytest.mark.parametrize("mode", ["refuse", "strip", "store"])
@pytest.mark.parametrize("name", [*FOR_ONE, "location"])
async def test_a_304_hands_nothing_of_one_client_to_all(name: str, mode: str) -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        if "if-none-match" in fields:
            return {"cache-control": "max-age=60", "etag": '"a"', name: "the second's"}, 304, b""
        return {"cache-control": "max-age=60", "etag": '"a"'}, 200, b"page"

    async with serving(telling(App(), answer), set_cookie=mode) as site:
        await site.ask()
        site.clock.advance(100)
        await site.ask()
        await site.settled()
        third = await site.ask()
        assert third.is_hit and name not in third.fields


CREDENTIALS = """
Authorization Cookie Proxy-Authorization X-API-Key Api-Key X-Auth-Token X-Access-Token X-Token Token X-CSRF-Token
X-XSRF-Token X-Forwarded-User X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Access-Token X-Remote-User Remote-User
X-Auth-Request-User X-Auth-Request-Email X-Authenticated-User X-WEBAUTH-USER X-Amzn-Oidc-Data X-Amzn-Oidc-Identity
X-Amzn-Oidc-Accesstoken Cf-Access-Jwt-Assertion Cf-Access-Authenticated-User-Email X-Goog-Iap-Jwt-Assertion
X-Goog-Authenticated-User-Email X-Ms-Client-Principal X-Ms-Client-Principal-Id X-Ms-Token-Aad-Id-Token X-Client-Cert
Client-Cert X-Forwarded-Client-Cert X-SSL-Client-Cert X-SSL-Client-Verify SSL-Client-S-DN X-Session-Id X-Session-Token
X-User-Id X-Tenant-Id X-Account X-JWT X-Vouch-User X-Pomerium-Jwt-Assertion X-Consumer-Username Tailscale-User-Login
X-Org-Id X-Organization X-Workspace-Id X-Company X-Team X-Realm X-Store-Id X-Merchant-Id X-Client-Id X-Device-Id
X-Employee-Id X-Patient-Id X-Person X-Actor X-Owner X-Sub X-Profile X-On-Behalf-Of X-Impersonate-User X-Act-As X-Group
X-Permissions X-Telegram-Init-Data Ticket DPoP X-Otp X-Pin X-License-Key
X-Amz-Security-Token X-Vault-Token X-Gitlab-Token PRIVATE-TOKEN X-Shopify-Access-Token X-WSSE X-Signature
""".split()


@pytest.mark.parametrize(
    ("control", "shared"), [("max-age=60", False), ("s-maxage=60", True), ("public, max-age=60", True)]
)
async def test_an_answer_to_a_credential_is_shared_only_if_it_says_so(control: str, shared: bool) -> None:
    app = App({"cache-control": control})
    async with serving(app) as site:
        for name in CREDENTIALS:
            await site.ask(f"/{name}", **{name.replace("-", "_"): "me"})
            assert (await site.ask(f"/{name}")).is_hit is shared, name


async def test_a_credential_goes_past_a_route_in_both_directions() -> None:
    app = App({})
    async with serving(app, routes=[CacheRoute("/*", ttl=60)]) as site:
        for name in CREDENTIALS:
            fields = {name.replace("-", "_"): "me"}
            answers = [await site.ask(f"/{name}", **one) for one in (fields, {}, fields, {})]
            assert [answer.is_hit for answer in answers] == [False, False, False, True], name
            assert len({answer.body for answer in answers}) == 3, name


# ------------------------------------------------------------------------------------------------- errors for everybody


@pytest.mark.parametrize("status", [428, 429, 431, 511, 412, 416, 417])
async def test_an_error_that_must_not_be_stored_is_nobody_elses(status: int) -> None:
    app = App({"cache-control": "public, max-age=60"}, status=status)
    async with serving(app, routes=[CacheRoute("/x", ttl=60)]) as site:
        assert [(await site.ask()).body for _ in range(2)] == [b"answer 1", b"answer 2"]


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 405, 406, 407, 408, 409, 411, 413, 415, 418, 421, 422, 451]
)
async def test_one_bad_request_is_not_served_to_everybody(status: int) -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        if "x-bad" in fields:
            return {"cache-control": "max-age=60"}, status, b"bad"
        return {"cache-control": "max-age=60"}, 200, b"page"

    async with serving(telling(App(), answer)) as site:
        assert (await site.ask(x_bad="1")).body == b"bad"
        assert (await site.ask()).body == b"page"


async def test_a_route_may_list_the_status_of_an_error_that_is_for_all() -> None:
    for status, listed in ((404, True), (403, True), (410, False)):
        app = App({}, status=status)
        routes = [CacheRoute("/*", ttl=60, statuses=(404, 403))]
        async with serving(app, routes=routes) as site:
            await site.ask()
            assert (await site.ask()).is_hit is listed


# ------------------------------------------------------------------------------------------- refusals of one requester


async def behind(site: Site, first: dict[str, str], count: int = 80, *, flies: bool = True) -> list[Reply]:
    """A herd of anonymous visitors behind one request. `flies`: that one waits like the others."""
    site.app.go.clear()
    site.app.called.clear()
    leader = asyncio.ensure_future(site.ask(**first))
    await site.app.called.wait()
    answers = await at_once(site, count, behind=int(flies))
    await leader
    return answers


@pytest.mark.parametrize("field", ["cookie", "x_api_key", "x_bad"])
@pytest.mark.parametrize(
    ("said", "status"), [({"cache-control": "private"}, 200), ({"cache-control": "no-store"}, 400), ({}, 500)]
)
@pytest.mark.parametrize("before", [0, 3])
async def test_what_one_requester_is_refused_lets_nobody_else_through(
    field: str, said: dict[str, str], status: int, before: int
) -> None:
    name = field.replace("_", "-")

    def answer(fields: dict[str, str], number: int) -> Any:
        return (said, status, b"mine") if name in fields else (cached(), 200, b"page")

    app = telling(App(), answer)
    async with serving(app) as site:
        for number in range(before):
            await site.ask(**{field: f"{number}"})
        # Who is like those who were refused before goes straight to the application.
        answers = await behind(site, {field: "me"}, flies=not before)
        assert {answer.body for answer in answers} == {b"page"}
        assert app.calls == before + 2


@pytest.mark.parametrize("agent", ["sqlmap", "curl"])
async def test_a_stranger_without_a_field_of_its_own_lets_nobody_through_who_is_not_like_it(
    agent: str,
) -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        if fields.get("user-agent") == agent:
            return {"cache-control": "no-store"}, 200, b"robots"
        return cached(), 200, b"page"

    app = telling(App(), answer)
    async with serving(app) as site:
        answers = await behind(site, {"user_agent": agent})
        assert {answer.body for answer in answers} == {b"page"}
        assert app.calls == 2


async def test_two_ordinary_visitors_that_were_refused_make_a_url_uncacheable() -> None:
    app = App({"cache-control": "no-store"})
    async with serving(app) as site:
        assert "uncacheable" not in (await site.ask()).told
        assert "uncacheable" not in (await site.ask()).told
        assert "uncacheable" in (await site.ask()).told


async def test_visitors_with_cookies_do_not_make_a_url_uncacheable_for_others() -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        return (
            ({"cache-control": "private"}, 200, b"mine") if "cookie" in fields else (cached(), 200, b"page")
        )

    app = telling(App(), answer)
    async with serving(app) as site:
        for number in range(5):
            assert (await site.ask(cookie=f"{number}")).body == b"mine"
        assert "uncacheable" not in (await site.ask()).told
        assert (await site.ask()).is_hit


# ---------------------------------------------------------------------------------------------------- parts and methods


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=20-", (416, b"")),
        ("bytes=20-30", (416, b"")),
        ("bytes=10-", (416, b"")),
        ("bytes=1-2", (206, b"12")),
        ("bytes=0-0", (206, b"0")),
        ("bytes=0-3", (206, b"0123")),
        ("bytes=2-", (206, b"23456789")),
        ("bytes=-3", (206, b"789")),
        ("bytes=-99", (206, b"0123456789")),
        ("bytes=2-8", (206, b"2345678")),
        ("bytes=0-1,4-5", (200, b"0123456789")),
        ("lines=1-2", (200, b"0123456789")),
        ("", (200, b"0123456789")),
    ],
)
async def test_a_range_beside_a_stored_part_is_answered_rightly(
    asked: str, expected: tuple[int, bytes]
) -> None:
    content = b"0123456789"

    def answer(fields: dict[str, str], number: int) -> Any:
        place = fields.get("range", "").removeprefix("bytes=")
        if not place or "," in place or "=" in place:
            return cached(etag='"a"'), 200, content
        first, _, last = place.partition("-")
        low = int(first) if first else max(0, 10 - int(last))
        high = min(9, int(last)) if first and last else 9
        if low > 9:
            return {"content-range": "bytes */10"}, 416, b""
        return cached(etag='"a"', content_range=f"bytes {low}-{high}/10"), 206, content[low : high + 1]

    async with serving(telling(App(), answer)) as site:
        assert (await site.ask(range="bytes=0-3")).body == b"0123"
        reply = await site.ask(**({"range": asked} if asked else {}))
        assert (reply.status, reply.body) == expected
        if reply.status == 416:
            assert reply.fields["content-range"] == "bytes */10"
        if reply.status == 206:
            low, _, high = (
                reply.fields["content-range"].removeprefix("bytes ").partition("/")[0].partition("-")
            )
            assert content[int(low) : int(high) + 1] == reply.body


@pytest.mark.parametrize("method", ["QUERY", "PROPFIND", "REPORT", "SEARCH", "OPTIONS"])
async def test_a_safe_method_removes_nothing(method: str) -> None:
    app = App()
    async with serving(app, routes=[CacheRoute("/*", ttl=60)]) as site:
        await site.ask()
        assert (await site.ask(method=method, body=b"x")).body == b"answer 2"
        assert (await site.ask()).body == b"answer 1"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 500, 501])
async def test_a_head_that_failed_removes_nothing(status: int) -> None:
    app = App(cached(etag='"a"'))

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        head = scope["method"] == "HEAD"
        await start(send, {} if head else app.headers, status if head else 200)
        await send({"type": "http.response.body", "body": b"" if head else b"page"})

    app.handler = handler
    async with serving(app) as site:
        await site.ask()
        # Fresh, it would be answered from the store: so the client wants the application asked.
        await site.ask(method="HEAD", cache_control="no-cache")
        await site.settled()
        assert (await site.ask()).is_hit


# ----------------------------------------------------------------------------------------------------- clients' wishes


@pytest.mark.parametrize("asked", ["no-cache", "no-store", "min-fresh=1000"])
@pytest.mark.parametrize("place", ["middleware", "route", "obeyed"])
async def test_a_client_that_wants_the_application_asked(asked: str, place: str) -> None:
    app = App({} if place == "route" else cached())
    options: dict[str, Any] = {"middleware": {"client_directives": "ignore"}, "obeyed": {}}.get(place, {})
    if place == "route":
        options = {"routes": [CacheRoute("/*", ttl=60, client_directives="ignore")]}
    async with serving(app, **options) as site:
        await site.ask()
        site.clock.advance(1)
        answers = [await site.ask(cache_control=asked) for _ in range(3)]
        assert app.calls == (4 if place == "obeyed" else 1)
        assert all(answer.is_hit for answer in answers) is (place != "obeyed")


@pytest.mark.parametrize(
    ("media", "length"), [("application/x-ndjson", None), ("text/plain", None), ("text/event-stream", None)]
)
async def test_an_endless_answer_lets_its_waiters_go(media: str, length: None) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, {"content-type": media})
        await send({"type": "http.response.body", "body": b"{}\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    app.handler = handler
    async with serving(app, routes=[CacheRoute("/*", ttl=60)], stream_timeout=0.05) as site:
        connections = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            connections.append((reader, writer))
        async with asyncio.timeout(60):
            for reader, _ in connections:
                await reader.readuntil(b"{}\n")
        assert app.calls == 3
        for _, writer in connections:
            writer.close()
        await until(lambda: app.open == 0)


# --------------------------------------------------------------------------------------------- poisoning and deception


@pytest.mark.parametrize(
    "name",
    [
        "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Scheme", "X-Forwarded-Port", "X-Forwarded-Prefix",
        "X-Forwarded-SSL", "X-Original-URL", "X-Rewrite-URL", "X-Original-Host", "X-Host", "X-Forwarded-Server",
    ],
)  # fmt: skip
async def test_a_field_that_is_echoed_poisons_only_its_authors_entry(name: str) -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        return cached(), 200, f"<a href={fields.get(name.lower(), 'shop.example')}>".encode()

    async with serving(telling(App(), answer)) as site:
        assert b"evil" in (await site.ask(**{name.replace("-", "_"): "evil.example"})).body
        assert b"evil" not in (await site.ask()).body
        assert (await site.ask()).is_hit


async def test_forwarded_is_told_apart_by_host_and_not_by_client() -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        return cached(), 200, fields.get("forwarded", "none").encode()

    async with serving(telling(App(), answer)) as site:
        await site.ask(forwarded="for=1.1.1.1;host=evil.example")
        assert (await site.ask()).body == b"none"
        assert (await site.ask(forwarded="for=2.2.2.2;host=evil.example")).is_hit
        assert (await site.ask(forwarded="for=3.3.3.3")).is_hit


@pytest.mark.parametrize("name", ["x_http_method_override", "x_http_method", "x_method_override"])
async def test_an_override_of_the_method_goes_past_the_cache(name: str) -> None:
    app = App()
    async with serving(app) as site:
        assert (await site.ask(**{name: "DELETE"})).body == b"answer 1"
        assert (await site.ask()).body == b"answer 2"
        assert (await site.ask(**{name: "DELETE"})).body == b"answer 3"


async def test_a_compressed_answer_whose_vary_forgets_it_is_for_those_who_can_read_it() -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        if "gzip" in fields.get("accept-encoding", ""):
            return cached(content_encoding="gzip"), 200, b"squeezed"
        return cached(), 200, b"plain"

    async with serving(telling(App(), answer)) as site:
        assert (await site.ask(accept_encoding="gzip")).body == b"squeezed"
        assert (await site.ask()).body == b"plain"
        assert (await site.ask(accept_encoding="gzip")).is_hit


async def test_an_origin_that_is_echoed_is_told_apart() -> None:
    def answer(fields: dict[str, str], number: int) -> Any:
        origin = fields.get("origin")
        return cached(**({"access_control_allow_origin": origin} if origin else {})), 200, b"page"

    async with serving(telling(App(), answer)) as site:
        await site.ask(origin="https://evil.example")
        assert (await site.ask(origin="https://good.example")).fields["access-control-allow-origin"] == (
            "https://good.example"
        )


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nhost: shop.example\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: shop.example/x\r\nconnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx",
        b"GET / HTTP/1.1\r\nhost: shop.example\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        b"1\r\nx\r\n0\r\n\r\n",
    ],
    ids=["two hosts", "a path in the host", "a body", "a body in chunks"],
)  # fmt: skip
async def test_a_request_that_two_servers_may_read_differently_is_not_stored(request_: bytes) -> None:
    app = App()
    async with serving(app) as site:
        reply = await site.write(request_)
        assert reply.status == 400 or reply.body == b"answer 1"
        calls = app.calls
        assert (await site.ask()).body == b"answer %d" % (calls + 1)


@pytest.mark.parametrize("bad", ["a\x00b"])
async def test_an_answer_with_what_may_be_read_as_another_line_is_not_stored(bad: str) -> None:
    from tests.http.fleet import Fleet

    app = App(cached(x=bad))
    async with Fleet(app) as fleet:
        assert [(await fleet.get()).body for _ in range(2)] == [b"answer 1", b"answer 2"]


async def test_a_private_page_under_the_name_of_a_style_sheet_stays_its_visitors() -> None:
    app = App({})
    async with serving(app, routes=[CacheRoute("/*.css", ttl=60)]) as site:
        for path in ("/account/x.css", "/account;x.css", "/account%2fx.css", "/static/..%2faccount.css"):
            mine = await site.ask(path, cookie="session=victim")
            assert (await site.ask(path)).body != mine.body


# ------------------------------------------------------------------------------------------------- floods and operators


async def test_a_flood_of_foreign_variants_leaves_those_in_use() -> None:
    app = App(cached(vary="x-variant"))
    async with serving(app) as site:
        # On one connection each: five thousand requests are enough of a load without as many connections.
        good = [f"good {number}" for number in range(50)]
        for _ in range(2):
            await site.ask_all([{"x-variant": value} for value in good])
        calls = app.calls
        await site.ask_all([{"x-variant": f"foreign {number}"} for number in range(5000)])
        assert app.calls == calls + 5000
        hits = await site.ask_all([{"x-variant": value} for value in good])
        # Two of them that have one place take turns.
        assert sum("; hit" in told for told in hits) >= 46


async def test_the_name_of_an_entry_has_the_whole_url() -> None:
    app = App()
    path = "/reports/" + "x" * 300 + "/7?page=" + "y" * 200
    async with serving(app) as site:
        await site.ask(path)
        (name,) = [flight for flight in store_of(site.guard)._entries if "://" in flight]  # type: ignore[attr-defined]
        assert path.partition("?")[0] in name and "y" * 200 in name
        long = "/" + "z" * 9000
        assert [(await site.ask(long)).body for _ in range(2)] == [b"answer 2", b"answer 3"]
