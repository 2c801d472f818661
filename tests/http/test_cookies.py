"""Single cookies in the key, and requests of known visitors that go past the cache."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard import CacheRoute, Misuse
from stampede_guard.http.requests.choosing import MOST_VALUE_BYTES
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.users.cookies import MOST_COOKIE_BYTES, read_cookies
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, status_of
from tests.support.counted import counted

LANG = CacheRoute("/*", ttl=60, key_cookies=("lang", "size"))


async def test_each_value_of_a_named_cookie_has_its_own_entry() -> None:
    app = App({})
    async with Fleet(app, processes=2, routes=[LANG]) as fleet:
        values = ["", "lang=de", "lang=en", "lang=", "size=de", "lang=de; size=1"]
        first = [await fleet.get(**({"cookie": value} if value else {})) for value in values]
        assert len({answer.body for answer in first}) == len(values)
        for value, answer in zip(values, first, strict=True):
            again = await fleet.get(process=1, **({"cookie": value} if value else {}))
            assert again.body == answer.body
            assert "hit" in status_of(again)
        assert (await fleet.get(cookie="size=1;lang=de")).body == first[-1].body


@pytest.mark.parametrize(
    "value",
    [
        "lang=de; sid=7",
        "sid",
        "LANG=de",
        "lang=de; lang=en",
        'a="; lang=de"',
        "lang",
        "lang=" + "x" * (MOST_VALUE_BYTES + 1),
        "lang=" + "x" * MOST_COOKIE_BYTES,
    ],
)
@pytest.mark.parametrize("headers", [{}, cached()])
async def test_other_and_unclear_cookies_are_credentials(value: str, headers: dict[str, str]) -> None:
    app = App(headers)
    async with Fleet(app, routes=[LANG]) as fleet:
        await fleet.get(cookie="lang=de")
        for _ in range(2):
            assert "hit" not in status_of(await fleet.get(cookie=value))
        assert app.calls == 3
        assert (await fleet.get(cookie="lang=de")).body == b"answer 1"


async def test_other_cookies_can_be_ignored() -> None:
    app = App({})
    route = CacheRoute("/*", ttl=60, key_cookies=("lang",), cookies="ignore")
    async with Fleet(app, routes=[route]) as fleet:
        await fleet.get(cookie="lang=de; sid=1")
        assert "hit" in status_of(await fleet.get(cookie="sid=2; lang=de"))
        assert "hit" not in status_of(await fleet.get(cookie="lang=en; sid=1"))
        for _ in range(2):
            for unclear in ("lang=de; lang=en", "lang; lang=de"):
                assert "hit" not in status_of(await fleet.get(cookie=unclear))


@pytest.mark.parametrize("lines", [["", "lang=de"], ["lang=de", ""], ["lang=de", "", ""]])
@pytest.mark.parametrize("route", [LANG, CacheRoute("/*", ttl=60, private_to="cookie:lang")])
async def test_a_cookie_in_one_of_several_lines_has_an_entry_of_its_own(
    lines: list[str], route: CacheRoute
) -> None:
    """1. A framework reads the first line only. 2. The cookie is in the second one. 3. It answers as without it."""
    app = App({})
    async with Fleet(app, routes=[route]) as fleet:
        for _ in range(2):
            fields = [("cookie", line) for line in lines]
            assert (await request(fleet.middlewares[0], "GET", "/", fields=fields)).body == b"answer 1"
        assert (await fleet.get(cookie="lang=de")).body == b"answer 2"


async def test_a_key_function_cannot_write_a_cookie_into_the_key() -> None:
    app = App({})
    route = CacheRoute("/*", ttl=60, key_cookies=("lang",), key=lambda scope: scope["query_string"].decode())
    async with Fleet(app, routes=[route]) as fleet:
        await fleet.get("/?", cookie="lang=de")
        for text in ("lang=de", "([(b'lang', b'de')], '')"):
            assert "hit" not in status_of(await fleet.get(f"/?{text}"))


async def test_a_change_of_the_url_reaches_all_values() -> None:
    app = App({})
    async with Fleet(app, processes=2, routes=[LANG]) as fleet:
        for value in ("lang=de", "lang=en"):
            await fleet.get(cookie=value)
        await fleet.get(method="PUT", process=1, cookie="lang=de; sid=1")
        for value in ("lang=de", "lang=en"):
            assert "hit" not in status_of(await fleet.get(cookie=value))


async def test_a_query_with_a_body_has_cookies_in_its_key_too() -> None:
    app = App({})
    async with Fleet(
        app, routes=[CacheRoute("/*", ttl=60, methods=("QUERY",), key_cookies=("lang",))]
    ) as fleet:
        await fleet.get(method="QUERY", cookie="lang=de")
        assert "hit" in status_of(await fleet.get(method="QUERY", cookie="lang=de"))
        assert "hit" not in status_of(await fleet.get(method="QUERY", cookie="lang=en"))


@given(st.lists(st.text('ab="; \t,', max_size=12), max_size=4))
def test_any_cookie_field_is_read(lines: list[str]) -> None:
    fields = tuple((b"cookie", line.encode()) for line in lines)
    found = read_cookies(fields, (b"a",))
    if found is not None:
        assert set(found.named) <= {b"a"}
        assert all(b";" not in value for value in found.named.values())


def test_names_that_are_no_cookies_are_refused() -> None:
    for wrong in ("lang", ("a b",), ("",), (7,), ["lang"]):
        with pytest.raises(Misuse):
            CacheRoute("/*", ttl=1, key_cookies=wrong)  # type: ignore[arg-type]


# --- anonymous_only -----------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["cookie", "authorization", "proxy_authorization", "x_login"])
async def test_requests_of_known_visitors_go_past_the_cache_at_no_cost(field: str) -> None:
    app = App({"cache-control": "public, max-age=60"})
    async with Fleet(app, anonymous_only=True, credential_headers=("X-Login",)) as fleet:
        await fleet.get()
        with counted() as calls:
            answer = await fleet.get(**{field: "x"})
        assert answer.body == b"answer 2"
        assert status_of(answer) == ""
        assert len(calls) < 10, calls
        assert (await fleet.get()).body == b"answer 1"


async def test_their_unsafe_requests_still_invalidate() -> None:
    app = App(cached())
    async with Fleet(app, anonymous_only=True) as fleet:
        await fleet.get()
        await fleet.get(method="PUT", cookie="a=1")
        assert "hit" not in status_of(await fleet.get())


@pytest.mark.parametrize(
    "options",
    [
        {"private_to": "cookie:sid"},
        {"routes": [LANG]},
        {"routes": [CacheRoute("/*", ttl=1, cookies="ignore")]},
        {"routes": [CacheRoute("/*", ttl=1, private_to="header:x-a")]},
    ],
)
def test_what_it_would_make_useless_is_refused(options: Any) -> None:
    with pytest.raises(Misuse, match="anonymous_only"):
        Settings.of({"anonymous_only": True, **options})
