"""A session of a middleware around the cache: its Set-Cookie and its Vary count, although the cache sees neither."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from stampede_guard import CacheRoute
from tests.http.asgi import request
from tests.http.fleet import Fleet, cached, status_of
from tests.http.suite.play import Answer

ROUTES = [CacheRoute("/*", ttl=60)]
CACHED = cached()


class Site:
    """Pages behind the cache, and sessions before it, as in an application that logs its visitors in."""

    def __init__(self, page: Callable[[Request], Response], *, processes: int = 1, **options: Any) -> None:
        self.calls = 0

        async def endpoint(asked: Request) -> Response:
            self.calls += 1
            await asyncio.sleep(0)
            return page(asked)

        app = Starlette(routes=[Route("/", endpoint, methods=["GET", "POST"])])
        self.fleet = Fleet(app, processes=processes, **options)
        self._doors = [SessionMiddleware(one, secret_key="secret") for one in self.fleet.middlewares]

    async def ask(self, process: int = 0, method: str = "GET", **fields: str) -> Answer:
        return await request(self._doors[process], method, "/", fields=list(fields.items()))


def form(headers: dict[str, str]) -> Callable[[Request], Response]:
    def page(asked: Request) -> Response:
        return PlainTextResponse(asked.session.setdefault("csrf", secrets.token_hex(8)), headers=headers)

    return page


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(("headers", "routes"), [({}, ROUTES), (CACHED, []), (CACHED, ROUTES)])
async def test_what_is_put_into_a_session_goes_to_its_visitor_alone(
    headers: dict[str, str], routes: list[CacheRoute], processes: int
) -> None:
    site = Site(form(headers), processes=processes, routes=routes)
    async with site.fleet:
        one_by_one = [await site.ask(n % processes) for n in range(4)]
        at_once = await asyncio.gather(*(site.ask(n % processes) for n in range(6)))
        answers = [*one_by_one, *at_once, await site.ask()]
        assert "detail=set-cookie" in status_of(answers[0])
        assert all(answer.get("set-cookie") for answer in answers)
        assert len({answer.body for answer in answers}) == len(answers) == site.calls


@pytest.mark.parametrize(("headers", "routes"), [({}, ROUTES), (CACHED, [])])
async def test_a_page_that_puts_nothing_into_the_session_is_stored(
    headers: dict[str, str], routes: list[CacheRoute]
) -> None:
    site = Site(lambda _: PlainTextResponse("page", headers=headers), routes=routes)
    async with site.fleet:
        await site.ask()
        assert "hit" in status_of(await site.ask())


async def test_an_operator_who_strips_cookies_has_said_that_the_page_is_for_all() -> None:
    site = Site(form({}), routes=ROUTES, set_cookie="strip")
    async with site.fleet:
        await site.ask()
        assert "hit" in status_of(await site.ask())


async def test_a_stale_page_that_was_found_unchanged_goes_to_its_visitor_alone() -> None:
    """A 304 whose call has put something into the session renews nothing."""
    fresh = cached(etag='"a"', cache_control="max-age=10, stale-if-error=0")

    def page(asked: Request) -> Response:
        if "if-none-match" in asked.headers:
            asked.session["seen"] = secrets.token_hex(8)
            return Response(status_code=304, headers=fresh)
        return PlainTextResponse("page", headers=fresh)

    site = Site(page)
    async with site.fleet:
        await site.ask()
        site.fleet.clock.advance(20)
        for number in (2, 3):
            answer = await site.ask()
            assert (answer.body, bool(answer.get("set-cookie")), site.calls) == (b"page", True, number)


async def test_an_answer_to_a_post_that_changes_the_session_is_stored_for_no_get() -> None:
    site = Site(form(cached(content_location="/")))
    async with site.fleet:
        posted = await site.ask(method="POST")
        assert (await site.ask()).body != posted.body


async def test_a_page_that_has_read_the_session_is_not_for_those_with_another_cookie() -> None:
    class Read(dict[str, str]):
        accessed, modified = True, False

    def page(asked: Request) -> Response:
        # As `request.session` does in new versions of Starlette.
        asked.scope["session"] = Read(asked.scope["session"])
        return PlainTextResponse(asked.headers.get("cookie", "nobody"), headers={"cache-control": control})

    for control in ("max-age=60", "public, max-age=60"):
        site = Site(page)
        async with site.fleet:
            for _ in range(2):
                for cookie in ({}, {"cookie": "a=1"}, {"cookie": "a=2"}):
                    answer = await site.ask(**cookie)
                    assert answer.body.decode() == cookie.get("cookie", "nobody")
            assert site.calls == (3 if "public" in control else 5)
