"""Stale responses while the application fails, by default (RFC 9111, 4.2.4), and what is never served stale."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.http.requests.routes import CacheRoute
from tests.http.fleet import App, Fleet, status_of

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
