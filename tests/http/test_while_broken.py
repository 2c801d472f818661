"""Stale responses while the application fails, by default (RFC 9111, 4.2.4), and what is never served stale."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.http.requests.routes import CacheRoute
from tests.http.fleet import App, Fleet, start, status_of
from tests.http.test_herd import joined

CC = "cache-control"


async def broken(fleet: Fleet, app: App, *, after: float, **fields: str) -> tuple[int, str]:
    """What a request gets so many seconds after a response was stored, when the application fails."""
    await fleet.get("/a")
    fleet.clock.advance(after)
    app.headers, app.status = {}, 503
    answer = await fleet.get("/a", **fields)
    return answer.status, status_of(answer)


@pytest.mark.parametrize(("after", "expected"), [(10.5, 200), (69, 200), (71, 503)])
async def test_a_response_replaces_errors_for_a_minute_after_it_has_become_stale(
    after: float, expected: int
) -> None:
    app = App({CC: "max-age=10"})
    async with Fleet(app) as fleet:
        status, said = await broken(fleet, app, after=after)
        assert status == expected
        assert ("stale-if-error" in said) is (expected == 200)


async def test_an_exception_counts_as_an_error() -> None:
    app = App({CC: "max-age=10"})

    async def fails(scope: Any, receive: Any, send: Any, number: int) -> None:
        raise LookupError("broken")

    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.handler = fails
        answer = await fleet.get()
        assert (answer.status, answer.body) == (200, b"answer 1")


@pytest.mark.parametrize("stale_if_error", [0, 5])
async def test_the_middleware_sets_another_time(stale_if_error: int) -> None:
    app = App({CC: "max-age=10"})
    async with Fleet(app, stale_if_error=stale_if_error) as fleet:
        assert (await broken(fleet, app, after=17))[0] == 503


@pytest.mark.parametrize(("stale_ttl", "expected"), [(0, 200), (5, 503)])
async def test_a_route_without_a_stale_time_of_its_own_has_that_of_the_middleware(
    stale_ttl: float, expected: int
) -> None:
    app = App({})
    routes = [CacheRoute("/a", ttl=10, stale_ttl=stale_ttl)]
    async with Fleet(app, routes=routes) as fleet:
        assert (await broken(fleet, app, after=17))[0] == expected


@pytest.mark.parametrize("word", ["must-revalidate", "proxy-revalidate"])
async def test_a_route_serves_nothing_stale_that_its_application_forbids(word: str) -> None:
    app = App({CC: word})
    async with Fleet(app, routes=[CacheRoute("/a", ttl=10)]) as fleet:
        assert (await broken(fleet, app, after=17))[0] == 503


async def test_what_was_invalidated_replaces_no_error() -> None:
    app = App({CC: "max-age=10"})
    async with Fleet(app) as fleet:
        await fleet.get("/a")
        await fleet.get("/a", method="DELETE")
        app.headers, app.status = {}, 503
        assert (await fleet.get("/a")).status == 503


async def test_a_stored_error_replaces_no_newer_one() -> None:
    app = App({CC: "max-age=10"}, status=503)
    async with Fleet(app) as fleet:
        assert "hit" not in (await broken(fleet, app, after=17))[1]


# --- for one requester only ----------------------------------------------------------------------

KINDS = {"an exception": 0, "a status": 503, "in mid-body": 200}


def failing_for(app: App, status: int, *names: bytes) -> App:
    """Fails for requests with one of these fields."""

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        fails = any(name in names for name, _ in scope["headers"])
        if fails and not status:
            raise LookupError("no such field")
        length = {"content-length": "8"} if fails and status == 200 else {}
        await start(send, app.headers | length, status if fails else 200)
        if length:
            await send({"type": "http.response.body", "body": b"ans", "more_body": True})
            raise LookupError("in mid-body")
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    return app


async def provoked(fleet: Fleet, status: int, **fields: str) -> None:
    """A stale response replaces the error, unless its client has read a part of the new one."""
    try:
        assert (await fleet.get(**fields)).body == b"answer 1"
    except (LookupError, AssertionError):
        assert status == 200
    await fleet.settled()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("told", ["max-age=10", "max-age=10, stale-while-revalidate=60"])
async def test_one_bad_request_a_second_keeps_nobody_else_on_the_stale_response(kind: str, told: str) -> None:
    app = failing_for(App({CC: told}), KINDS[kind], b"x-bad")
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        await provoked(fleet, KINDS[kind], x_bad="1")
        await fleet.get()
        await fleet.settled()
        answer = await fleet.get()
        assert answer.body == b"answer 3"
        assert "hit; ttl=10" in status_of(answer)


@pytest.mark.parametrize("kind", ["an exception", "a status"])
async def test_those_for_whom_it_has_failed_do_not_ask_again_at_once(kind: str) -> None:
    app = failing_for(App({CC: "max-age=10"}), KINDS[kind], b"x-bad")
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        for value in ("1", "1", "2", "2", "3", "4"):
            await provoked(fleet, KINDS[kind], x_bad=value)
        # Two that are not alike speak for all with fields of their own.
        assert app.calls == 3
        fleet.clock.advance(2)
        await provoked(fleet, KINDS[kind], x_bad="3")
        assert app.calls == 4


async def test_those_who_wait_behind_a_bad_request_get_a_new_response() -> None:
    app = failing_for(App({CC: "max-age=10"}), 0, b"x-bad")
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        app.go.clear()
        bad = asyncio.ensure_future(fleet.get(x_bad="1"))
        await joined(fleet, 1)
        alike, others = fleet.herd(9, x_bad="1"), fleet.herd(10)
        await joined(fleet, 20)
        app.go.set()
        assert {answer.body for answer in await asyncio.gather(*others)} == {b"answer 3"}
        assert {answer.body for answer in await asyncio.gather(bad, *alike)} <= {b"answer 1", b"answer 3"}
        assert app.calls == 3


async def test_an_ordinary_visitors_failure_still_counts_for_all() -> None:
    app = failing_for(App({CC: "max-age=10"}), 503, b"accept")
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        for _ in range(3):
            answer = await fleet.get(accept="*/*")
            assert (answer.body, app.calls) == (b"answer 1", 2)
