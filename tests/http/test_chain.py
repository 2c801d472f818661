"""Two caches one behind the other, as a CDN and an application: what each says, and how their times add up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.http.middleware import StampedeMiddleware
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, status_of

SAID = {"cache-control": "max-age=10, s-maxage=60", "cdn-cache-control": "max-age=30"}


async def test_each_cache_adds_its_word_after_that_of_the_one_behind_it() -> None:
    async with Fleet(App(SAID), name="app") as inner, Fleet(inner.middlewares[0], name="edge") as outer:
        inner.clock.advance(0)
        first = await outer.get("/")
        assert status_of(first) == (
            "app; fwd=uri-miss; fwd-status=200; stored; ttl=30, edge; fwd=uri-miss; fwd-status=200; stored; ttl=30"
        )
        outer.clock.advance(5)
        # What was stored is told as it was stored; the last word is of now.
        assert status_of(await outer.get("/")).endswith("stored; ttl=30, edge; hit; ttl=25")
        await outer.get("/?other")
        inner.clock.advance(7)
        other = await request(inner.middlewares[0], "GET", "/?other")
        assert status_of(other) == "app; hit; ttl=23"


@pytest.mark.parametrize("mode", ["on", "bypass"])
async def test_two_with_one_guard_and_one_name_are_as_one(mode: Any) -> None:
    app = App({"cache-control": "max-age=10, stale-while-revalidate=60", "vary": "accept-language"})
    async with Fleet(app) as fleet:
        fleet.guards[0].mode = mode
        inner = fleet.middlewares[0]
        outer = StampedeMiddleware(inner, guard=fleet.guards[0], clock=fleet.clock)
        asking = [request(outer, "GET", "/", fields=[("accept-language", "de")]) for _ in range(5)]
        async with asyncio.timeout(60):
            assert {answer.body for answer in await asyncio.gather(*asking)} == {b"answer 1"}
        assert app.calls == 1
        if mode == "bypass":
            return
        for number, language in enumerate(("en", "de", "fr"), 2):
            fleet.clock.advance(20)
            # The first and the last are misses, and that of the second is refreshed behind it.
            await request(outer, "GET", "/", fields=[("accept-language", language)])
            await fleet.settled()
            assert app.calls == number
        answer = await request(outer, "GET", "/", fields=[("accept-language", "de")])
        assert answer.get("age") == "20"


async def test_the_cache_in_front_goes_on_counting_the_age_that_the_one_behind_tells() -> None:
    app = App(SAID)
    async with Fleet(app, name="app") as inner, Fleet(inner.middlewares[0], name="edge") as outer:
        await inner.get("/")
        inner.clock.advance(20)
        first = await outer.get("/")
        assert (first.body, first.get("age")) == (b"answer 1", "20")
        outer.clock.advance(9)
        second = await outer.get("/")
        assert (second.get("age"), status_of(second).split(", ")[-1]) == ("29", "edge; hit; ttl=1")
        inner.clock.advance(9)
        outer.clock.advance(1)
        inner.clock.advance(1)
        assert (await outer.get("/")).body == b"answer 2"


async def test_a_field_of_its_own_keeps_longer_than_the_cache_in_front() -> None:
    app = App(SAID | {"app-cache-control": "max-age=600"})
    targets = ("app-cache-control", "cdn-cache-control")
    async with (
        Fleet(app, name="app", targets=targets) as inner,
        Fleet(inner.middlewares[0], name="edge") as outer,
    ):
        await outer.get("/")
        for _ in range(3):
            outer.clock.advance(31)
            inner.clock.advance(31)
            assert "app; hit" in status_of(await outer.get("/"))
        assert app.calls == 1


async def test_the_cache_in_front_validates_and_the_one_behind_answers_without_the_application() -> None:
    app = App({"cdn-cache-control": "max-age=10", "app-cache-control": "max-age=600", "etag": '"a"'})
    targets = ("app-cache-control",)
    async with (
        Fleet(app, name="app", targets=targets) as inner,
        Fleet(inner.middlewares[0], name="edge") as outer,
    ):
        await outer.get("/")
        outer.clock.advance(60)
        answer = await outer.get("/")
        assert answer.body == b"answer 1"
        assert status_of(answer).endswith("edge; fwd=stale; fwd-status=304; stored; ttl=10")
        assert app.calls == 1
