"""Cache-Status in a flow: how long what was stored stays fresh (RFC 9211, 2.4), and without the field."""

from __future__ import annotations

import asyncio

from tests.http.fleet import App, Fleet, cached, status_of


async def test_a_stored_miss_says_for_how_long_its_response_is_fresh() -> None:
    async with Fleet(App(cached())) as fleet:
        assert status_of(await fleet.get()).endswith("; stored; ttl=60")


async def test_the_time_is_without_the_age_that_the_response_came_with() -> None:
    async with Fleet(App(cached(age="20"))) as fleet:
        assert status_of(await fleet.get()).endswith("; stored; ttl=40")


async def test_a_renewed_response_says_it_too() -> None:
    app = App(cached(etag='"a"'))
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(70)
        app.status = 304
        assert status_of(await fleet.get()).endswith("fwd-status=304; stored; ttl=60")


async def test_what_is_not_stored_has_no_time() -> None:
    async with Fleet(App({"cache-control": "no-store, max-age=60"})) as fleet:
        assert "ttl" not in status_of(await fleet.get())


async def test_without_the_field_each_kind_of_response_goes_without_it() -> None:
    async with Fleet(App(cached()), cache_status=False) as fleet:
        answers = await asyncio.gather(*fleet.herd(3))
        answers += [
            await fleet.get(),
            await fleet.get(method="POST"),
            await fleet.get(cache_control="no-store"),
        ]
        answers += [await fleet.get("/other", cache_control="only-if-cached")]
        assert [status_of(answer) for answer in answers] == [""] * 7


async def test_without_the_field_those_of_other_caches_stay() -> None:
    async with Fleet(App(cached(cache_status="origin; hit")), cache_status=False) as fleet:
        assert [status_of(await fleet.get()) for _ in range(2)] == ["origin; hit"] * 2
