"""Single requests, one after the other: variants, ranges, methods, directives, and what is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import Policy
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.inside import store_of


async def test_variants_are_apart_and_go_all_at_once() -> None:
    app = App(cached(vary="accept-encoding"))
    async with Fleet(app, processes=2) as fleet:
        assert (await fleet.get(accept_encoding="gzip")).body == b"answer 1"
        other = await fleet.get(accept_encoding="br")
        assert other.body == b"answer 2"
        assert "fwd=vary-miss" in status_of(other)
        for process in (0, 1):
            assert (await fleet.get(process=process, accept_encoding="gzip")).body == b"answer 1"
            assert (await fleet.get(process=process, accept_encoding="br;q=1.0")).body == b"answer 2"
        await fleet.get(method="DELETE")
        assert (await fleet.get(accept_encoding="br")).body == b"answer 4"
        assert (await fleet.get(accept_encoding="gzip")).body == b"answer 5"


async def test_variants_of_one_url_are_bounded() -> None:
    app = App(cached(vary="x-random"))
    async with Fleet(app, variants=4) as fleet:
        for number in range(50):
            await fleet.get(x_random=str(number))
        store: Any = store_of(fleet.guards[0])
        assert len(store) <= 5 + 1, "the variants, and what groups of responses need"


async def test_two_variants_in_one_place_are_never_taken_for_each_other() -> None:
    app = App(cached(vary="x"))
    async with Fleet(app, variants=1) as fleet:
        await fleet.get(x="base")
        bodies = [(await fleet.get(x=value)).body for value in ("a", "b", "a", "a")]
        assert bodies == [b"answer 2", b"answer 3", b"answer 4", b"answer 4"]


async def test_a_head_is_answered_from_what_a_get_stored() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        await fleet.get()
        head = await fleet.get(method="HEAD")
        assert head.body == b""
        assert "hit" in status_of(head)
        assert app.calls == 1


async def test_a_head_renews_what_is_stale_or_tells_that_it_has_changed() -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"'})
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        await fleet.get(method="HEAD")
        assert app.scopes[-1]["method"] == "HEAD"
        assert "hit" in status_of(await fleet.get())
        fleet.clock.advance(20)
        app.headers = {"cache-control": "max-age=10", "etag": '"b"'}
        await fleet.get(method="HEAD")
        assert "uri-miss" in status_of(await fleet.get())


async def test_a_condition_is_answered_from_the_answer_that_it_brought() -> None:
    app = App(cached(etag='"a"'))
    async with Fleet(app) as fleet:
        assert (await fleet.get(if_none_match='"a"')).status == 304
        assert (await fleet.get(if_none_match='"b"')).status == 200
        assert app.calls == 1


async def test_a_validated_answer_is_served_with_its_new_fields() -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"', "x": "1"})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        assert (b"if-none-match", b'"a"') in scope["headers"]
        await start(send, {"etag": '"a"', "x": "2", "cache-control": "max-age=10"}, 304)
        await send({"type": "http.response.body", "body": b""})

    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.handler = handler
        answer = await fleet.get()
        assert (answer.status, answer.body, answer.get("x")) == (200, b"answer 1", "2")
        assert "fwd=stale; fwd-status=304; stored" in status_of(answer)
        assert "hit; ttl=10" in status_of(await fleet.get())


async def test_a_304_that_says_no_store_serves_those_who_asked_and_is_not_stored() -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"'})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, {"etag": '"a"', "cache-control": "no-store"}, 304)
        await send({"type": "http.response.body", "body": b""})

    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.handler = handler
        answer = await fleet.get()
        assert (answer.status, answer.body) == (200, b"answer 1")
        assert "; stored" not in status_of(answer)
        assert "hit" not in status_of(await fleet.get())


async def test_ranges_are_cut_from_the_whole_and_the_impossible_is_told() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        part = await fleet.get(range="bytes=0-2")
        assert (part.status, part.body, part.get("content-range")) == (206, b"ans", "bytes 0-2/8")
        assert (await fleet.get(range="bytes=-1")).body == b"1"
        beyond = await fleet.get(range="bytes=100-")
        assert (beyond.status, beyond.get("content-range")) == (416, "bytes */8")
        assert (await fleet.get(range="bytes=0-1,4-5")).status == 200
        assert (await fleet.get(range="lines=1-2")).status == 200
        assert app.calls == 1


async def test_a_stored_beginning_is_completed_only_with_the_same_strong_validator() -> None:
    for tag, expected in (('"a"', b"0123456789"), ('"b"', b"whole")):
        app = App()

        async def handler(scope: Any, receive: Any, send: Any, number: int, tag: str = tag) -> None:
            asked = dict(scope["headers"]).get(b"range")
            if number == 1:
                bounds, body, etag = "0-3", b"0123", '"a"'
            elif asked == b"bytes=4-":
                bounds, body, etag = "4-9", b"456789", tag
            else:
                await start(send, cached(etag=tag))
                await send({"type": "http.response.body", "body": b"whole"})
                return
            await start(send, cached(etag=etag, content_range=f"bytes {bounds}/10"), 206)
            await send({"type": "http.response.body", "body": body})

        app.handler = handler
        async with Fleet(app) as fleet:
            assert (await fleet.get(range="bytes=0-3")).status == 206
            answer = await fleet.get()
            assert (answer.status, answer.body) == (200, expected)
            assert "hit" in status_of(await fleet.get())


async def test_only_if_cached_is_504_without_a_call() -> None:
    app = App()
    async with Fleet(app) as fleet:
        assert (await fleet.get(cache_control="only-if-cached")).status == 504
        assert app.calls == 0
        await fleet.get()
        assert (await fleet.get(cache_control="only-if-cached")).status == 200


async def test_no_store_in_a_request_leaves_what_is_stored_alone() -> None:
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        assert (await fleet.get(cache_control="no-store")).body == b"answer 2"
        assert (await fleet.get()).body == b"answer 1"


async def test_no_cache_in_a_request_asks_the_application_and_stores_what_it_says() -> None:
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        answer = await fleet.get(cache_control="no-cache")
        assert answer.body == b"answer 2"
        assert "fwd=request" in status_of(answer)
        assert (await fleet.get()).body == b"answer 2"


async def test_a_targeted_field_goes_before_cache_control_in_the_order_that_was_given() -> None:
    app = App(
        {"cdn-cache-control": "no-store", "my-cache-control": "max-age=60", "cache-control": "no-store"}
    )
    async with Fleet(app, targets=("my-cache-control", "cdn-cache-control")) as fleet:
        await fleet.get()
        assert "hit" in status_of(await fleet.get())
    async with Fleet(app) as fleet:
        await fleet.get()
        assert "hit" not in status_of(await fleet.get())


async def test_what_other_caches_said_stays_before_our_own_word() -> None:
    app = App(cached(cache_status="inner; hit"))
    async with Fleet(app, name="edge", x_cache=True, expose_key=True) as fleet:
        first = await fleet.get("/a?b=c")
        assert status_of(first).startswith(
            "inner; hit, edge; fwd=uri-miss; fwd-status=200; stored; ttl=60; key="
        )
        second = await fleet.get("/a?b=c")
        assert status_of(second).startswith("inner; hit, edge; hit; ttl=60; key=")
        assert (first.get("x-cache"), second.get("x-cache")) == ("MISS", "HIT")


async def test_age_goes_on_from_the_age_that_came() -> None:
    app = App(cached(age="10"))
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(5)
        answer = await fleet.get()
        assert [value for name, value in answer.fields if name == "age"] == ["15"]
        assert "hit; ttl=45" in status_of(answer)


async def test_other_methods_are_the_applications() -> None:
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        for method in ("OPTIONS", "TRACE"):
            assert "fwd=method" in status_of(await fleet.get(method=method))
        assert "hit" in status_of(await fleet.get())


async def test_locations_on_the_same_origin_go_with_a_post_and_others_stay() -> None:
    app = App()
    async with Fleet(app) as fleet:
        for path in ("/new", "/view", "/other"):
            await fleet.get(path)
        app.headers = {"location": "/new", "content-location": "http://example.test/view"}
        await fleet.get("/list", method="POST")
        app.headers = {"location": "http://elsewhere.test/other"}
        await fleet.get("/list", method="POST")
        app.headers = cached()
        assert "hit" not in status_of(await fleet.get("/new"))
        assert "hit" not in status_of(await fleet.get("/view"))
        assert "hit" in status_of(await fleet.get("/other"))


@pytest.mark.parametrize("mode", ["off", "bypass"])
async def test_without_the_store_every_answer_is_the_applications(mode: Any) -> None:
    app = App()
    async with Fleet(app, policy=Policy(mode=mode)) as fleet:
        assert (await fleet.get()).body == b"answer 1"
        assert (await fleet.get()).body == b"answer 2"


async def test_a_host_that_is_not_clear_is_not_cached() -> None:
    from tests.http.asgi import scope_of

    app = App()
    async with Fleet(app) as fleet:
        for _ in range(2):
            scope = scope_of("GET", "/", [])
            scope["headers"].append((b"host", b"evil.test"))
            sent: list[Any] = []

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            await fleet.middlewares[0](scope, None, send)
        assert app.calls == 2
        assert (await fleet.get()).body == b"answer 3"
        assert (await fleet.get(host="other.test")).body == b"answer 4"
        assert (await fleet.get(host="OTHER.test:80")).body == b"answer 4"


@pytest.mark.parametrize(
    "headers",
    [
        {"cache-control": "max-age=\x00, =,,;"},
        {"cache-control": '"', "vary": "a b"},
        {"cache-control": "max-age=60", "vary": "\xff"},
        {"expires": "soon", "age": "old", "date": "never"},
        {"cache-control": "max-age=99999999999999999999", "age": "-1"},
        {"cdn-cache-control": "?;=(", "cache-control": "max-age=-1"},
        {"content-length": "many", "cache-control": "max-age=60"},
        {"etag": "", "last-modified": "", "cache-control": "max-age=1"},
    ],
    ids=str,
)
async def test_a_broken_header_is_never_an_error(headers: dict[str, str]) -> None:
    app = App(headers)
    async with Fleet(app) as fleet:
        for _ in range(3):
            assert (await fleet.get()).status == 200
            fleet.clock.advance(2)


@pytest.mark.parametrize("status", [304, 206])
async def test_a_status_that_nobody_asked_for_is_handed_on(status: int) -> None:
    app = App(cached(etag='"a"', content_range="bytes 0-7/8"), status=status)
    async with Fleet(app) as fleet:
        for _ in range(3):
            assert (await fleet.get()).status == status
