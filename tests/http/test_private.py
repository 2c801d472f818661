"""Private entries: each user has responses that nobody else is served."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard import CacheRoute, Misuse
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.users.cookies import MOST_COOKIE_BYTES, read_cookies
from stampede_guard.http.users.naming import MOST_USER_BYTES, user_digest
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, status_of

PRIVATE = {"cache-control": "private, max-age=60"}
HEADER, COOKIE, FUNCTION = (
    "header:X-Who",
    "cookie:sid",
    lambda scope: scope["headers"][-1][1].decode("latin-1"),
)


@pytest.mark.parametrize(
    ("naming", "field"), [(HEADER, "x_who"), ("header:Authorization", "authorization"), (FUNCTION, "x_any")]
)
@pytest.mark.parametrize("on_a_route", [False, True])
async def test_a_private_response_is_stored_for_its_user_only(
    naming: Any, field: str, on_a_route: bool
) -> None:
    app = App(PRIVATE)
    options = (
        {"routes": [CacheRoute("/*", ttl=60, private_to=naming)]} if on_a_route else {"private_to": naming}
    )
    async with Fleet(app, processes=2, **options) as fleet:
        one = await fleet.get(**{field: "anna"})
        other = await fleet.get(**{field: "berta"})
        assert one.body != other.body
        for process in (0, 1):
            for user, answer in (("anna", one), ("berta", other)):
                again = await fleet.get(process=process, **{field: user})
                assert "hit" in status_of(again)
                assert again.body == answer.body
        assert app.calls == 2


async def test_a_cookie_may_name_the_user_whatever_other_cookies_there_are() -> None:
    app = App(PRIVATE)
    async with Fleet(app, private_to=COOKIE) as fleet:
        one = await fleet.get(cookie="a=1; sid=anna")
        assert (await fleet.get(cookie="sid=anna; theme=dark")).body == one.body
        assert (await fleet.get(cookie="sid=berta")).body != one.body
        assert (await fleet.get(cookie="xsid=anna")).body != one.body
        assert (await fleet.get(cookie="SID=anna")).body != one.body


@pytest.mark.parametrize("fields", [{}, {"x_who": ""}, {"x_who": "  "}])
async def test_nobody_shares_no_entry_with_a_user(fields: dict[str, str]) -> None:
    """Without a user it is as without the option: a private response is not stored."""
    app = App(PRIVATE)
    async with Fleet(app, private_to=HEADER) as fleet:
        await fleet.get(x_who="anna")
        for _ in range(2):
            assert "hit" not in status_of(await fleet.get(**fields))
        assert app.calls == 3


async def test_an_empty_name_is_a_credential_and_not_an_anonymous_visitor() -> None:
    app = App(cached())
    route = CacheRoute("/*", ttl=60, private_to=HEADER)
    async with Fleet(app, routes=[route]) as fleet:
        await fleet.get(x_who="")
        assert "hit" not in status_of(await fleet.get())
        assert app.calls == 2


async def test_shared_responses_and_those_of_users_are_apart_also_if_they_are_public() -> None:
    app = App({"cache-control": "public, max-age=60"})
    async with Fleet(app, private_to=HEADER) as fleet:
        shared = await fleet.get()
        own = await fleet.get(x_who="anna")
        assert own.body != shared.body
        assert (await fleet.get()).body == shared.body
        assert (await fleet.get(x_who="anna")).body == own.body
        assert app.calls == 2


async def unclear(fleet: Fleet, app: App, fields: list[tuple[str, str]]) -> None:
    calls = app.calls
    for _ in range(2):
        answer = await request(fleet.middlewares[0], "GET", "/", fields=fields)
        assert "fwd=bypass; detail=user" in status_of(answer)
    assert app.calls == calls + 2


@pytest.mark.parametrize(
    "value",
    [
        "sid=a; sid=b",
        "sid=a; sid=a",
        'a="; sid=anna"',
        'sid=anna; a="; b=c"',
        "sid=anna; \xa0sid=berta",
        "a=1; \x1fsid=berta",
        "sid\x0b=berta",
        "sid=" + "x" * (MOST_USER_BYTES + 1),
    ],
)
async def test_a_cookie_that_two_readers_may_read_differently_names_nobody(value: str) -> None:
    app = App({"cache-control": "public, max-age=60"})
    async with Fleet(app, private_to=COOKIE) as fleet:
        await fleet.get(cookie="sid=anna")
        await unclear(fleet, app, [("cookie", value)])


async def test_two_headers_and_a_very_long_one_name_nobody() -> None:
    app = App({"cache-control": "public, max-age=60"})
    async with Fleet(app, private_to=HEADER) as fleet:
        await fleet.get(x_who="anna")
        await unclear(fleet, app, [("X-Who", "anna"), ("X-Who", "berta")])
        await unclear(fleet, app, [("X-Who", "anna"), ("x-who", "anna")])
        await unclear(fleet, app, [("X-Who", "x" * (MOST_USER_BYTES + 1))])


def fails(scope: Any) -> str:
    raise ValueError(scope["path"])


@pytest.mark.parametrize("naming", [fails, lambda scope: object(), lambda scope: 7, lambda scope: b"anna"])
async def test_a_function_that_fails_loses_only_caching(naming: Any) -> None:
    app = App({"cache-control": "public, max-age=60"})
    async with Fleet(app, private_to=naming) as fleet:
        await unclear(fleet, app, [])
    async with Fleet(app, routes=[CacheRoute("/*", ttl=9, private_to=naming)]) as fleet:
        await unclear(fleet, app, [])


@given(
    st.lists(st.binary(min_size=1, max_size=40), min_size=2, max_size=6, unique_by=lambda v: v.strip(b" \t"))
)
def test_no_two_identifiers_and_no_two_sources_have_one_digest(values: list[bytes]) -> None:
    found = []
    for value in values:
        if value.strip(b" \t"):
            found.append(user_digest(HEADER, {}, ((b"x-who", value),)))
            found.append(user_digest("header:X-Other", {}, ((b"x-other", value),)))
            found.append(user_digest(lambda scope, value=value: value.decode("latin-1") + ".", {}, ()))
    assert len(set(found)) == len(found)


async def test_an_identifier_that_looks_like_a_key_or_a_header_changes_nothing_else() -> None:
    app = App(PRIVATE)
    async with Fleet(app, private_to=HEADER, expose_key=True) as fleet:
        bodies = set()
        for who in ("anna", "u:anna", "anna:http://example.test/", "anna#0.1", "../anna", "anna%00", "anna*"):
            answer = await fleet.get(x_who=who)
            bodies.add(answer.body)
            assert who not in status_of(await fleet.get(x_who=who)).replace("example.test", "")
        assert len(bodies) == app.calls == 7


async def test_a_cookie_is_set_for_one_response_only_also_in_private_entries() -> None:
    app = App(PRIVATE | {"set-cookie": "sid=new"})
    async with Fleet(app, private_to=HEADER) as fleet:
        for _ in range(2):
            assert "hit" not in status_of(await fleet.get(x_who="anna"))
    app.headers = {"cache-control": "no-store, private"}
    async with Fleet(app, private_to=HEADER) as fleet:
        for _ in range(2):
            assert "hit" not in status_of(await fleet.get(x_who="anna"))


async def test_a_route_gives_private_responses_without_a_lifetime_its_own() -> None:
    app = App({"cache-control": "private"})
    route = CacheRoute("/*", ttl=60, private_to=HEADER)
    async with Fleet(app, routes=[route]) as fleet:
        await fleet.get(x_who="anna", cookie="a=1", authorization="x")
        assert "hit" in status_of(await fleet.get(x_who="anna"))


async def test_what_was_refused_to_visitors_does_not_keep_users_from_the_cache() -> None:
    app = App(PRIVATE)
    async with Fleet(app, private_to=HEADER) as fleet:
        for _ in range(5):
            answer = await fleet.get("/1")
        assert "detail=uncacheable" in status_of(answer)
        assert not fleet.middlewares[0].cache.uncacheable.is_empty
        await fleet.get("/1", x_who="anna")
        assert "hit" in status_of(await fleet.get("/1", x_who="anna"))
        assert "detail=uncacheable" in status_of(await fleet.get("/1"))


async def test_a_herd_of_one_user_is_one_call_and_other_users_do_not_join_it() -> None:
    app = App(PRIVATE)
    async with Fleet(app, processes=2, private_to=HEADER) as fleet:
        app.go.clear()
        ones, others = fleet.herd(8, x_who="anna"), fleet.herd(8, x_who="berta")
        await app.called.wait()
        app.go.set()
        bodies = [{answer.body for answer in await asyncio.gather(*herd)} for herd in (ones, others)]
        assert all(len(found) == 1 for found in bodies)
        assert bodies[0] != bodies[1]
        assert app.calls == 2


async def test_vary_groups_and_conditions_hold_within_private_entries() -> None:
    app = App(PRIVATE | {"vary": "accept-language", "cache-groups": '"a"', "etag": '"e"'})
    async with Fleet(app, processes=2, private_to=HEADER) as fleet:
        for language in ("de", "en"):
            for user in ("anna", "berta"):
                await fleet.get(x_who=user, accept_language=language)
        assert app.calls == 4
        for language in ("de", "en"):
            assert "hit" in status_of(await fleet.get(process=1, x_who="anna", accept_language=language))
        answer = await fleet.get(x_who="anna", accept_language="de", if_none_match='"e"')
        assert answer.status == 304
        await fleet.guards[1].invalidate_tag("http:a")
        for user in ("anna", "berta"):
            assert "hit" not in status_of(await fleet.get(x_who=user, accept_language="de"))


@pytest.mark.parametrize("query", ["sorted", "ignore"])
async def test_a_change_of_a_url_reaches_the_entries_of_all_users_of_it(query: Any) -> None:
    app = App(PRIVATE)
    route = CacheRoute("/r", ttl=60, private_to=HEADER, query=query)
    async with Fleet(app, processes=2, routes=[route], private_to=HEADER) as fleet:
        for path, changed in (("/r?b=1&a=2", "/r?a=2&b=1"), ("/x?b=1", "/x?b=1")):
            for user in ("anna", "berta"):
                await fleet.get(path, x_who=user)
                assert "hit" in status_of(await fleet.get(path, process=1, x_who=user))
            await fleet.get(changed, method="PUT", x_who="anna")
            for user in ("anna", "berta"):
                assert "hit" not in status_of(await fleet.get(path, process=1, x_who=user))


async def test_a_purge_drops_the_entries_of_all_users() -> None:
    app = App(PRIVATE)
    async with Fleet(app, private_to=HEADER) as fleet:
        for user in ("anna", "berta"):
            await fleet.get("/a/1", x_who=user)
        for options in ({"url": "/a/1"}, {"prefix": "/a"}):
            await fleet.middlewares[0].purge(**options)
            for user in ("anna", "berta"):
                assert "hit" not in status_of(await fleet.get("/a/1", x_who=user))


async def test_the_response_to_a_users_post_is_not_stored_for_others() -> None:
    app = App(PRIVATE | {"content-location": "http://example.test/"})
    async with Fleet(app, private_to=HEADER) as fleet:
        await fleet.get(method="POST", x_who="anna")
        assert "hit" not in status_of(await fleet.get())


@pytest.mark.parametrize("control", ["max-age=60", "public, max-age=60"])
@pytest.mark.parametrize("naming", [HEADER, lambda scope: scope["headers"][-1][1].decode() or None])
async def test_nor_is_it_if_it_has_a_lifetime(naming: Any, control: str) -> None:
    """As a GET's, which is stored for its user only. The user may be named by what is no credential."""
    app = App({"cache-control": control, "content-location": "http://example.test/"})
    async with Fleet(app, private_to=naming) as fleet:
        await fleet.get(method="POST", x_who="anna")
        assert "hit" not in status_of(await fleet.get(x_who=""))
        assert app.calls == 2


@pytest.mark.parametrize("options", [{"private_to": HEADER}, {"key_cookies": ("lang",)}])
async def test_a_post_on_a_route_that_is_too_large_stores_nothing_for_others(options: Any) -> None:
    app = App({"cache-control": "max-age=60", "content-location": "http://example.test/"})
    route = CacheRoute("/*", ttl=60, methods=("POST",), **options)
    async with Fleet(app, routes=[route], max_request_bytes=1) as fleet:
        fields = [("x-who", "anna")] if "private_to" in options else [("cookie", "lang=de")]
        await request(fleet.middlewares[0], "POST", "/", fields=fields, body=b"large")
        assert "hit" not in status_of(await fleet.get())


def test_what_names_no_user_is_refused() -> None:
    for wrong in ("x-who", "header:", "cookie:a b", "query:user", 7, ("header:a",)):
        with pytest.raises(Misuse):
            CacheRoute("/*", ttl=1, private_to=wrong)  # type: ignore[arg-type]
        with pytest.raises(Misuse):
            Settings.of({"private_to": wrong})  # type: ignore[typeddict-item]
    with pytest.raises(Misuse, match="cookies"):
        CacheRoute("/*", ttl=1, private_to="cookie:sid", cookies="ignore")


def test_the_cookies_that_are_read_are_bounded() -> None:
    assert read_cookies(((b"cookie", b"sid=a;" + b"x" * MOST_COOKIE_BYTES),), (b"sid",)) is None
    found = read_cookies(((b"cookie", b"a=1"), (b"cookie", b'b="2"; sid=7=8')), (b"sid",))
    assert found is not None
    assert (found.named, found.others) == ({b"sid": b"7=8"}, True)
