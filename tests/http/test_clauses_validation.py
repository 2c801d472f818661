"""Clause by clause, through the whole cache: conditions, what a 304 or a HEAD changes, and parts.

RFC 9111, 3.2 to 3.4 and 4.3; RFC 9110, 13 and 14.
"""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.http.spec.dates import format_date
from tests.http.fleet import App, Fleet, start, status_of

NOW = 1_700_000_000.0


def at(offset: float) -> str:
    return format_date(NOW + offset).decode()


STORED = {"cache-control": "max-age=60", "etag": '"a"', "last-modified": at(-1000), "date": at(0)}


@pytest.mark.parametrize(
    ("stored", "asked", "status"),
    [
        ({}, {"if_none_match": '"a"'}, 304),
        ({}, {"if_none_match": 'W/"a"'}, 304),
        ({}, {"if_none_match": '"b", "a"'}, 304),
        ({}, {"if_none_match": "*"}, 304),
        ({}, {"if_none_match": '"b"'}, 200),
        ({}, {"if_none_match": "a"}, 200),
        ({"etag": 'W/"a"'}, {"if_none_match": '"a"'}, 304),
        ({"etag": '"a, b"'}, {"if_none_match": '"x", "a, b"'}, 304),
        ({}, {"if_modified_since": at(-1000)}, 304),
        ({}, {"if_modified_since": at(-999)}, 304),
        ({}, {"if_modified_since": at(-1001)}, 200),
        ({}, {"if_modified_since": "then"}, 200),
        ({}, {"if_modified_since": at(-1000).replace("GMT", "gmt")}, 304),
        ({}, {"if_none_match": '"b"', "if_modified_since": at(0)}, 200),
        ({}, {"if_none_match": '"a"', "if_modified_since": at(-2000)}, 304),
        ({"last-modified": ""}, {"if_modified_since": at(0)}, 304),
        ({"last-modified": ""}, {"if_modified_since": at(-1)}, 200),
        ({"last-modified": "", "date": ""}, {"if_modified_since": at(0)}, 304),
        ({"last-modified": "", "date": ""}, {"if_modified_since": at(-1)}, 200),
        ({}, {"if_match": '"b"'}, 200),
        ({}, {"if_unmodified_since": at(-2000)}, 200),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_condition_is_answered_from_what_is_stored(
    stored: dict[str, str], asked: dict[str, Any], status: int, method: str
) -> None:
    app = App({name: value for name, value in (STORED | stored).items() if value})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(5)
        answer = await fleet.get(method=method, **asked)
        assert answer.status == status
        assert "hit" in status_of(answer)
        assert answer.body == (b"answer 1" if (status, method) == (200, "GET") else b"")
        assert app.calls == 1


@pytest.mark.parametrize("status", [404, 410, 301])
async def test_a_condition_means_nothing_where_the_answer_would_not_be_a_success(status: int) -> None:
    app = App(STORED, status=status)
    async with Fleet(app) as fleet:
        await fleet.get()
        assert (await fleet.get(if_none_match='"a"')).status == status


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"etag": '"a"'}, {"if-none-match": '"a"'}),
        ({"etag": 'W/"a"'}, {"if-none-match": 'W/"a"'}),
        ({"etag": "a"}, {"if-none-match": "a"}),
        ({"last-modified": at(-5)}, {"if-modified-since": at(-5)}),
        (
            {"etag": '"a"', "last-modified": at(-5)},
            {"if-none-match": '"a"', "if-modified-since": at(-5)},
        ),
        ({}, {}),
    ],
    ids=str,
)
async def test_what_is_stale_is_validated_with_its_own_validators_and_no_others(
    stored: dict[str, str], expected: dict[str, str]
) -> None:
    app = App({"cache-control": "max-age=10"} | stored)
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        await fleet.get(if_none_match='"mine"', if_match="*", if_unmodified_since=at(0), if_range='"x"')
        sent = {name.decode(): value.decode() for name, value in app.scopes[-1]["headers"]}
        assert {name: value for name, value in sent.items() if name.startswith("if-")} == expected


CHANGED = {
    "x-test": "2",
    "content-foo": "2",
    "cache-control": "max-age=20",
    "expires": at(500),
    "content-location": "/2",
    "content-security-policy": "2",
    "date": at(20),
    "vary": "x",
    "set-cookie": "a=2",
}
KEPT = {
    "content-length": "8",
    "content-type": "text/1",
    "content-encoding": "one",
    "content-range": "bytes 0-1/2",
    "only-stored": "1",
}


async def test_a_304_changes_what_it_names_but_what_is_about_the_content() -> None:
    first = dict.fromkeys(CHANGED, "1") | {"date": at(0), "vary": "y", "cache-control": "max-age=10"} | KEPT
    app = App(first | {"etag": '"a"'})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        wrong = dict.fromkeys(KEPT, "99")
        del wrong["only-stored"]
        await start(send, CHANGED | wrong | {"etag": '"a"', "new": "2", "keep-alive": "1"}, 304)
        await send({"type": "http.response.body", "body": b""})

    async with Fleet(app, set_cookie="store") as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.handler = handler
        for _ in range(2):
            answer = await fleet.get()
            assert (answer.status, answer.body) == (200, b"answer 1")
            # A 304 hands a cookie to the one client that it is for.
            assert {name: answer.get(name) for name in CHANGED} == CHANGED | {"set-cookie": "1"}
            assert {name: answer.get(name) for name in KEPT} == KEPT
            assert answer.get("new") == "2"
            assert answer.get("keep-alive") is None
        assert app.calls == 2
        assert "hit; ttl=20" in status_of(answer)


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ({}, 10),
        ({"cache-control": "max-age=100"}, 100),
        ({"cache-control": "max-age=100", "age": "30"}, 70),
        ({"cache-control": "max-age=100", "date": at(-20)}, 60),
    ],
    ids=str,
)
async def test_a_304_says_how_old_what_it_confirms_is(told: dict[str, str], left: int) -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"', "date": at(0), "age": "3"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.headers, app.status = told | {"etag": '"a"'}, 304
        await fleet.get()
        assert f"hit; ttl={left}" in status_of(await fleet.get())


async def test_a_304_about_something_else_is_not_taken_for_what_is_stored() -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"'})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        conditional = any(name.startswith(b"if-") for name, _ in scope["headers"])
        fields = {"cache-control": "max-age=10", "etag": '"b"'}
        await start(send, fields, 304 if conditional else 200)
        await send({"type": "http.response.body", "body": b"" if conditional else b"new"})

    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.handler = handler
        assert (await fleet.get()).body == b"new"
        assert (await fleet.get()).body == b"new"
        assert app.calls == 3


async def test_another_answer_than_a_304_takes_the_place_of_what_was_stored() -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"', "x": "1"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.headers = {"cache-control": "max-age=10"}
        for _ in range(2):
            answer = await fleet.get()
            assert (answer.body, answer.get("x"), answer.get("etag")) == (b"answer 2", None, None)


@pytest.mark.parametrize(
    ("told", "outdated"),
    [
        ({"etag": '"a"'}, False),
        ({"etag": '"b"'}, True),
        ({"etag": '"a"', "content-length": "8"}, False),
        ({"etag": '"a"', "content-length": "9"}, True),
    ],
    ids=str,
)
async def test_a_head_renews_or_outdates_what_a_get_stored(told: dict[str, str], outdated: bool) -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"', "x": "1"})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.headers = told | {"cache-control": "max-age=10", "x": "2"}
        await fleet.get(method="HEAD")
        app.headers.pop("content-length", None)
        answer = await fleet.get()
        assert ("hit" in status_of(answer)) is not outdated
        assert answer.get("x") == "2"
        assert answer.body == (b"answer 3" if outdated else b"answer 1")


@pytest.mark.parametrize(
    ("asked", "status", "body", "told"),
    [
        ("bytes=0-2", 206, b"ans", "bytes 0-2/8"),
        ("bytes=3-", 206, b"wer 1", "bytes 3-7/8"),
        ("bytes=-3", 206, b"r 1", "bytes 5-7/8"),
        ("bytes=-100", 206, b"answer 1", "bytes 0-7/8"),
        ("bytes=6-100", 206, b" 1", "bytes 6-7/8"),
        ("BYTES=0-0", 206, b"a", "bytes 0-0/8"),
        ("bytes=8-", 416, b"", "bytes */8"),
        ("bytes=-0", 416, b"", "bytes */8"),
        ("bytes=3-2", 200, b"answer 1", None),
        ("bytes=a-b", 200, b"answer 1", None),
        ("bytes=", 200, b"answer 1", None),
        ("bytes", 200, b"answer 1", None),
        ("items=0-2", 200, b"answer 1", None),
        ("bytes=0-1, 3-4", 200, b"answer 1", None),
    ],
)
async def test_a_range_of_what_is_stored(asked: str, status: int, body: bytes, told: str | None) -> None:
    app = App(STORED)
    async with Fleet(app) as fleet:
        await fleet.get()
        answer = await fleet.get(range=asked)
        assert (answer.status, answer.body, answer.get("content-range")) == (status, body, told)
        assert answer.get("content-length") == str(len(body))
        assert (await fleet.get(method="HEAD", range=asked)).status == 200
        assert app.calls == 1


@pytest.mark.parametrize(
    ("condition", "status"),
    [('"a"', 206), ('"b"', 200), ('W/"a"', 200), (at(-1000), 206), (at(-999), 200), ("x", 200)],
)
async def test_a_range_only_of_what_the_client_has_the_rest_of(condition: str, status: int) -> None:
    app = App(STORED)
    async with Fleet(app) as fleet:
        await fleet.get()
        assert (await fleet.get(range="bytes=0-2", if_range=condition)).status == status
        assert (await fleet.get(range="bytes=0-2", if_none_match='"a"', if_range=condition)).status == 304


@pytest.mark.parametrize(
    "told", ["", "bytes 4-2/8", "bytes 0-9/8", "bytes x-y/z", "items 0-2/8", "bytes */8"]
)
async def test_a_part_that_does_not_say_which_is_not_stored(told: str) -> None:
    app = App({"cache-control": "max-age=60", "content-range": told}, status=206)
    async with Fleet(app) as fleet:
        await fleet.get(range="bytes=0-2")
        assert "hit" not in status_of(await fleet.get(range="bytes=0-2"))


async def test_a_part_is_never_served_as_the_whole() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        asked = dict(scope["headers"]).get(b"range")
        fields = {"cache-control": "max-age=60"}
        if asked == b"bytes=2-3":
            await start(send, fields | {"content-range": "bytes 2-3/6"}, 206)
            await send({"type": "http.response.body", "body": b"23"})
        else:
            await start(send, fields)
            await send({"type": "http.response.body", "body": b"012345"})

    app.handler = handler
    async with Fleet(app) as fleet:
        for _ in range(2):
            assert (await fleet.get(range="bytes=2-3")).body == b"23"
        assert app.calls == 1
        assert (await fleet.get(range="bytes=3-3")).body == b"3"
        assert app.calls == 1
        assert ((await fleet.get()).status, (await fleet.get()).body) == (200, b"012345")
        assert (await fleet.get(range="bytes=2-3")).body == b"23"
        assert app.calls == 2
