"""Clause by clause, through the whole cache: what is reused, for how long, for whom (RFC 9111, 3 to 5; RFC 9213)."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.http.spec.dates import format_date
from tests.http.fleet import App, Fleet, status_of

NOW = 1_700_000_000.0
"""Where the clock begins."""


def at(offset: float) -> str:
    return format_date(NOW + offset).decode()


CC, EX, LM = "cache-control", "expires", "last-modified"

# What the answer says, and whether it is reused three seconds later without a question.
REUSED: list[tuple[dict[str, str], bool]] = [
    # 4.2.1: the order of precedence
    ({CC: "max-age=3600"}, True),
    ({CC: "max-age=2"}, False),
    ({CC: "max-age=0"}, False),
    ({CC: "s-maxage=3600, max-age=0"}, True),
    ({CC: "max-age=3600, s-maxage=0"}, False),
    ({CC: "max-age=3600", EX: at(-100)}, True),
    ({CC: "max-age=0", EX: at(100)}, False),
    ({CC: "max-age=2147483649"}, True),
    ({CC: "max-age=99999999999999999999999999"}, True),
    ({EX: at(100)}, True),
    ({EX: at(2)}, False),
    ({EX: at(0)}, False),
    ({EX: at(100), "date": at(0)}, True),
    ({EX: at(100), "date": at(1000)}, False),
    ({EX: at(1100), "date": at(1000)}, True),
    ({EX: at(1e9)}, True),
    # 5.3 and RFC 9110, 5.6.7: what is no date is in the past
    ({EX: "0"}, False),
    ({EX: "-1"}, False),
    ({EX: ""}, False),
    ({EX: "tomorrow"}, False),
    ({EX: "Thu, 18 Aug 2050 02:01:18 GMT"}, True),
    ({EX: "thu, 18 aug 2050 02:01:18 gmt"}, True),
    ({EX: "Thursday, 18-Aug-50 02:01:18 GMT"}, True),
    ({EX: "Thu Aug 18 02:01:18 2050"}, True),
    ({EX: "Thu, 18 Aug 2050 02:01:18"}, False),
    ({EX: "Thu, 18 Aug 2050 02:01:18 UTC"}, False),
    ({EX: "Thu, 18 Aug 2050 02:01:18 +0000"}, False),
    ({EX: "Thu 18 Aug 2050 02:01:18 GMT"}, False),
    ({EX: "Thu, 18 Aug 50 02:01:18 GMT"}, False),
    ({EX: "Thu, 18 Aug 2050 2:01:18 GMT"}, False),
    ({EX: "Thu, 8 Aug 2050 02:01:18 GMT"}, False),
    ({EX: "Thu, 18 Aug 2050  02:01:18 GMT"}, False),
    ({EX: "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT"}, False),
    # 5.2: how directives are written
    ({CC: "MAX-AGE=3600"}, True),
    ({CC: "  max-age=3600  "}, True),
    ({CC: "max-age=003600"}, True),
    ({CC: 'max-age="3600"'}, True),
    ({CC: "max-age='3600'"}, False),
    ({CC: "max-age=3600.5"}, False),
    ({CC: "max-age=-3600"}, False),
    ({CC: "max-age=+3600"}, False),
    ({CC: "max-age=3600s"}, False),
    ({CC: "max-age="}, False),
    ({CC: "max-age"}, False),
    ({CC: "max-age=3600, max-age=1"}, False),
    ({CC: "max-age=1, max-age=3600"}, False),
    ({CC: "max-age=3600, unknown, other=1, third=\"a, b\""}, True),
    ({CC: ", ,max-age=3600,,"}, True),
    ({CC: 'x="max-age=3600", max-age=1'}, False),
    ({CC: 'x="max-age=1", max-age=3600'}, True),
    ({CC: 'x="\\", max-age=1", max-age=3600'}, True),
    ({CC: "x-max-age=3600"}, False),
    ({CC: "max-age=3600, no-store"}, False),
    ({CC: "max-age=3600, NO-STORE"}, False),
    ({CC: 'max-age=3600, x="no-store"'}, True),
    ({CC: "max-age=3600, private"}, False),
    ({CC: "max-age=3600, Private"}, False),
    ({CC: 'max-age=3600, private="x"'}, True),
    ({CC: "max-age=3600, no-cache"}, False),
    ({CC: 'max-age=3600, no-cache="x"'}, True),
    ({CC: 'max-age=3600, no-cache="x", no-cache'}, False),
    ({CC: "max-age=3600, must-revalidate"}, True),
    ({CC: "max-age=3600, proxy-revalidate, no-transform, immutable, public"}, True),
    ({CC: "immutable"}, False),
    ({CC: "public"}, False),
    # 5.4: a response has no Pragma
    ({CC: "max-age=3600", "pragma": "no-cache"}, True),
    # 4.2.3 and 5.1: age
    ({CC: "max-age=3600", "age": "3590"}, True),
    ({CC: "max-age=3600", "age": "3598"}, False),
    ({CC: "max-age=3600", "age": "7200"}, False),
    ({CC: "max-age=3600", "age": "7200, 0"}, False),
    ({CC: "max-age=3600", "age": "0, 7200"}, True),
    ({CC: "max-age=3600", "age": "-7200"}, True),
    ({CC: "max-age=3600", "age": "7200.5"}, True),
    ({CC: "max-age=3600", "age": "old"}, True),
    ({CC: "max-age=3600", "age": ""}, True),
    ({CC: "max-age=3600", "age": "2147483648"}, False),
    ({CC: "max-age=3600", "age": "9999999999999"}, False),
    ({CC: "max-age=3600", "date": at(-3590)}, True),
    ({CC: "max-age=3600", "date": at(-7200)}, False),
    ({CC: "max-age=3600", "date": at(7200)}, True),
    ({CC: "max-age=3600", "date": "never"}, True),
    ({EX: at(100), "date": at(0), "age": "99"}, False),
    # 4.2.2: a guess
    ({LM: at(-1000)}, True),
    ({LM: at(-20)}, False),
    ({LM: at(10)}, False),
    ({LM: "long ago"}, False),
    ({LM: at(-1000), CC: "max-age=0"}, False),
    ({LM: at(-1000), EX: "0"}, False),
    ({}, False),
    # RFC 9213: a targeted field goes before
    ({"cdn-cache-control": "max-age=3600", CC: "no-store"}, True),
    ({"cdn-cache-control": "max-age=3600", EX: "0"}, True),
    ({"cdn-cache-control": "max-age=1", CC: "max-age=3600"}, False),
    ({"cdn-cache-control": "max-age=3600", "age": "7200"}, False),
    ({"cdn-cache-control": "no-store", CC: "max-age=3600"}, False),
    ({"cdn-cache-control": "private, max-age=60", CC: "max-age=3600"}, False),
    ({"cdn-cache-control": "no-cache", CC: "max-age=3600"}, False),
    ({"cdn-cache-control": "public", CC: "max-age=3600"}, False),
    ({"cdn-cache-control": "", CC: "max-age=3600"}, True),
    ({"cdn-cache-control": "max-age=1, &", CC: "max-age=3600"}, True),
    ({"cdn-cache-control": "max-age='1'", CC: "max-age=3600"}, True),
    ({"cdn-cache-control": 'max-age="1"', CC: "max-age=3600"}, True),
    ({"cdn-cache-control": "max-age=3600, max-age=1", CC: "max-age=3600"}, False),
    ({"cdn-cache-control": "max-age=3600; x=y, foo=(a b)"}, True),
    ({"surrogate-control": "max-age=3600"}, False),
    # 4.1
    ({CC: "max-age=3600", "vary": "*"}, False),
    ({CC: "max-age=3600", "vary": "foo, *"}, False),
    ({CC: "max-age=3600", "vary": "*, foo"}, False),
    ({CC: "max-age=3600", "vary": "foo"}, True),
    ({CC: "max-age=3600", "vary": ""}, True),
    # 7.3
    ({CC: "max-age=3600", "set-cookie": "a=1"}, True),
    ({LM: at(-1000), "set-cookie": "a=1"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "reused"), REUSED, ids=[str(headers) for headers, _ in REUSED])
async def test_whether_an_answer_is_reused_three_seconds_later(headers: dict[str, str], reused: bool) -> None:
    app = App(headers)
    async with Fleet(app, heuristics=True, set_cookie="store") as fleet:
        await fleet.get()
        fleet.clock.advance(3)
        answer = await fleet.get()
        assert (answer.body == b"answer 1") is reused
        assert ("hit" in status_of(answer)) is reused
        if reused:
            assert [name for name, _ in answer.fields].count("age") == 1
            assert int(answer.get("age") or 0) >= 3


async def test_two_lines_of_one_field_are_one_list() -> None:
    for lines, reused in (
        (["max-age=3600", "no-store"], False),
        (["x", "max-age=3600"], True),
        (["max-age=3600", "max-age=1"], False),
    ):
        calls = 0

        async def app(scope: Any, receive: Any, send: Any, lines: list[str] = lines) -> None:
            nonlocal calls
            calls += 1
            fields = [(b"cache-control", line.encode()) for line in lines]
            await send({"type": "http.response.start", "status": 200, "headers": fields})
            await send({"type": "http.response.body", "body": b""})

        async with Fleet(app) as fleet:
            await fleet.get()
            fleet.clock.advance(3)
            await fleet.get()
        assert (calls == 1) is reused
        calls = 0


@pytest.mark.parametrize("status", [200, 203, 204, 206, 300, 301, 308, 404, 410, 414, 501])
async def test_a_status_that_is_cacheable_by_default_is_guessed_about(status: int) -> None:
    headers = {LM: at(-1000)} | ({"content-range": "bytes 0-7/8"} if status == 206 else {})
    app = App(headers, status=status)
    async with Fleet(app, heuristics=True) as fleet:
        asked = {"range": "bytes=0-7"} if status == 206 else {}
        await fleet.get(**asked)  # type: ignore[arg-type]
        assert "hit" in status_of(await fleet.get(**asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [201, 202, 302, 303, 307, 500, 502, 503, 504, 599])
async def test_any_other_needs_to_be_told_and_then_is_reused_until_it_is_stale(status: int) -> None:
    for headers, expected in (
        ({LM: at(-1000)}, False),
        ({CC: "max-age=60"}, True),
        ({CC: "public", LM: at(-1000)}, True),
    ):
        app = App(headers, status=status)
        async with Fleet(app, heuristics=True) as fleet:
            await fleet.get()
            assert ("hit" in status_of(await fleet.get())) is expected
            fleet.clock.advance(101)
            assert "hit" not in status_of(await fleet.get())


@pytest.mark.parametrize("status", [400, 401, 402, 403, 405, 406, 407, 408, 409, 411, 413, 415, 421, 422])
async def test_an_error_about_one_request_needs_public(status: int) -> None:
    for headers, expected in (
        ({CC: "max-age=60"}, False),
        ({CC: "s-maxage=60"}, False),
        ({CC: "public, max-age=60"}, True),
    ):
        app = App(headers, status=status)
        async with Fleet(app) as fleet:
            await fleet.get()
            assert ("hit" in status_of(await fleet.get())) is expected


@pytest.mark.parametrize("status", [412, 416, 417, 428, 429, 431, 511])
async def test_what_must_not_be_stored_is_not_whatever_it_says(status: int) -> None:
    app = App({CC: "public, max-age=60"}, status=status)
    async with Fleet(app, heuristics=True) as fleet:
        for number in (1, 2):
            assert (await fleet.get()).body == b"answer %d" % number


@pytest.mark.parametrize(("status", "reused"), [(200, True), (404, True), (299, False), (599, False)])
async def test_must_understand_goes_before_no_store_and_asks_for_understanding(
    status: int, reused: bool
) -> None:
    app = App({CC: "max-age=60, no-store, must-understand"}, status=status)
    async with Fleet(app) as fleet:
        await fleet.get()
        assert ("hit" in status_of(await fleet.get())) is reused


# What a client asks for, of an answer that has been fresh for 10 of its 60 seconds: from the store or not.
ASKED: list[tuple[dict[str, str], bool]] = [
    ({"cache_control": "max-age=20"}, True),
    ({"cache_control": "max-age=5"}, False),
    ({"cache_control": "max-age=0"}, False),
    ({"cache_control": "max-age=x"}, False),
    ({"cache_control": "min-fresh=40"}, True),
    ({"cache_control": "min-fresh=55"}, False),
    ({"cache_control": "no-cache"}, False),
    ({"cache_control": "NO-CACHE"}, False),
    ({"cache_control": "no-store"}, False),
    ({"cache_control": "only-if-cached"}, True),
    ({"cache_control": "no-transform"}, True),
    ({"cache_control": "unknown=1"}, True),
    ({"cache_control": "max-stale"}, True),
    ({"pragma": "no-cache"}, False),
    ({"pragma": "x, No-Cache"}, False),
    ({"pragma": "x"}, True),
    ({"pragma": "no-cache", "cache_control": "x"}, True),
]


@pytest.mark.parametrize(("asked", "stored"), ASKED, ids=str)
async def test_what_a_client_may_ask_of_a_fresh_answer(asked: dict[str, Any], stored: bool) -> None:
    app = App({CC: "max-age=60"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(10)
        assert ((await fleet.get(**asked)).body == b"answer 1") is stored


# Of an answer that has been stale for 10 seconds.
STALE: list[tuple[str, dict[str, str], bool]] = [
    ("max-age=10", {}, False),
    ("max-age=10", {"cache_control": "max-stale"}, True),
    ("max-age=10", {"cache_control": "max-stale=20"}, True),
    ("max-age=10", {"cache_control": "max-stale=5"}, False),
    ("max-age=10", {"cache_control": "max-stale=x"}, False),
    ("max-age=10", {"cache_control": "max-stale=20, max-age=15"}, False),
    ("max-age=10", {"cache_control": "max-stale=20, min-fresh=1"}, True),
    ("max-age=10, must-revalidate", {"cache_control": "max-stale"}, False),
    ("max-age=10, proxy-revalidate", {"cache_control": "max-stale"}, False),
    ("s-maxage=10", {"cache_control": "max-stale"}, False),
    ("max-age=10, no-cache", {"cache_control": "max-stale"}, False),
    ("max-age=10, stale-while-revalidate=20", {}, True),
    ("max-age=10, stale-while-revalidate=5", {}, False),
    ("max-age=10, stale-while-revalidate=x", {}, False),
    ("max-age=10, stale-while-revalidate=20, must-revalidate", {}, False),
    ("max-age=10, stale-while-revalidate=20", {"cache_control": "max-age=0"}, False),
]


@pytest.mark.parametrize(("said", "asked", "stored"), STALE, ids=str)
async def test_when_a_stale_answer_is_served(said: str, asked: dict[str, Any], stored: bool) -> None:
    app = App({CC: said, "etag": '"a"'})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        answer = await fleet.get(**asked)
        assert (answer.body == b"answer 1") is stored
        assert (answer.get("age") == "20") is stored
        await fleet.settled()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize(
    ("said", "asked", "stored"),
    [
        ("max-age=10", {}, True),
        ("max-age=10, stale-if-error=0", {}, False),
        ("max-age=10", {"cache_control": "stale-if-error=0"}, False),
        ("max-age=10, must-revalidate", {}, False),
        ("max-age=10, proxy-revalidate", {}, False),
        ("max-age=10, no-cache", {}, False),
        ("s-maxage=10", {}, False),
        ("max-age=10, stale-if-error=20", {}, True),
        ("max-age=10, stale-if-error=5", {}, False),
        ("max-age=10", {"cache_control": "stale-if-error=20"}, True),
        ("max-age=10, must-revalidate, stale-if-error=20", {}, False),
        ("max-age=10, no-cache, stale-if-error=20", {}, False),
        ("s-maxage=10", {"cache_control": "stale-if-error=20"}, False),
        ("s-maxage=10, stale-if-error=20", {}, True),
    ],
)
async def test_a_stale_answer_in_place_of_an_error(
    said: str, asked: dict[str, Any], stored: bool, status: int
) -> None:
    app = App({CC: said})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.headers, app.status = {}, status
        answer = await fleet.get(**asked)
        assert answer.status == (200 if stored else status)


@pytest.mark.parametrize("status", [501, 505, 404, 403])
async def test_other_errors_are_the_answer(status: int) -> None:
    app = App({CC: "max-age=10, stale-if-error=100"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.headers, app.status = {}, status
        assert (await fleet.get()).status == status


async def test_the_time_that_an_answer_took_is_part_of_its_age_but_never_makes_it_useless() -> None:
    app = App({CC: "max-age=60"})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        fleet.clock.advance(8)
        app.handler = None
        await app(scope, receive, send)

    async with Fleet(app) as fleet:
        app.handler = handler
        await fleet.get()
        fleet.clock.advance(2)
        assert (await fleet.get()).get("age") == "10"
    app = App({CC: "max-age=4"})
    async with Fleet(app) as fleet:
        app.handler = handler
        await fleet.get()
        assert (await fleet.get()).get("age") == "2"


async def test_what_is_stored_last_is_served_and_a_newer_answer_that_is_not_stored_does_not_touch_it() -> (
    None
):
    app = App({CC: "max-age=60"})
    async with Fleet(app) as fleet:
        await fleet.get()
        app.headers = {CC: "no-store"}
        assert (await fleet.get(cache_control="no-cache")).body == b"answer 2"
        app.headers = {CC: "max-age=60"}
        assert (await fleet.get(cache_control="no-cache")).body == b"answer 3"
        assert (await fleet.get()).body == b"answer 3"
