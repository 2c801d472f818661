"""What is the leader's only is never served to the others, however they came to wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.test_herd import joined

ONES_OWN: dict[str, tuple[dict[str, str], int]] = {
    "server error": ({}, 500),
    "error of a route": ({}, 404),
    "too many": ({"retry-after": "1"}, 429),
    "sign in": ({"www-authenticate": "Basic"}, 401),
    "redirect to sign in": ({"location": "/login"}, 302),
    "cookie": ({"set-cookie": "session=1"}, 200),
    "cookie and a date": ({"set-cookie": "a=1", "last-modified": "Wed, 01 Jan 2020 00:00:00 GMT"}, 200),
    "private": ({"cache-control": "private, max-age=60"}, 200),
    "private for the targeted": ({"cache-control": "max-age=60", "cdn-cache-control": "private"}, 200),
    "no-store": ({"cache-control": "no-store"}, 200),
    "private after a semicolon": ({"cache-control": "must-revalidate; private"}, 200),
    "no-store after a blank": ({"cache-control": "public no-store"}, 200),
    "vary on all": ({"cache-control": "max-age=60", "vary": "*"}, 200),
    "over at once": ({"cache-control": "max-age=0"}, 200),
}


@pytest.mark.parametrize("kind", ONES_OWN)
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("routed", [False, True])
async def test_each_of_a_herd_gets_an_answer_of_its_own_call(kind: str, processes: int, routed: bool) -> None:
    headers, status = ONES_OWN[kind]
    app = App(headers, status=status)
    app.go.clear()
    routes = [CacheRoute("/*", ttl=60)] if routed else []
    async with Fleet(app, processes=processes, routes=routes) as fleet:
        herd = fleet.herd(8)
        await joined(fleet, 8)
        app.go.set()
        answers = await asyncio.gather(*herd)
        assert {answer.body for answer in answers} == {b"answer %d" % number for number in range(1, 9)}
        assert not any("collapsed" in status_of(answer) or "hit" in status_of(answer) for answer in answers)
        await fleet.settled()
        assert (await fleet.get()).body == b"answer 9"


@pytest.mark.parametrize("processes", [1, 2])
async def test_an_exception_is_its_requests_and_the_next_computes(processes: int) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if number <= 2:
            raise LookupError(number)
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    app.go.clear()
    async with Fleet(app, processes=processes) as fleet:
        herd = fleet.herd(8)
        await joined(fleet, 8)
        app.go.set()
        ended = await asyncio.gather(*herd, return_exceptions=True)
        errors = [error.args for error in ended if isinstance(error, LookupError)]
        assert sorted(errors) == [(1,), (2,)]
        assert all(error is not None for error in ended)


@pytest.mark.parametrize("length", [{}, {"content_length": "8"}], ids=["chunked", "with its length"])
async def test_an_exception_in_mid_body_breaks_off_for_those_who_read_it_and_is_not_stored(
    length: dict[str, str],
) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached(**length))
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await app.go.wait()
        if number == 1:
            raise LookupError("no more")
        await send({"type": "http.response.body", "body": b"more"})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        first = asyncio.ensure_future(fleet.get())
        await app.called.wait()
        app.go.set()
        with pytest.raises(LookupError):
            await first
        answer = await fleet.get()
        assert answer.body == b"halfmore"
        assert app.calls == 2


@pytest.mark.parametrize("said", ["9", "3"])
async def test_a_body_of_another_length_than_was_said_is_nobody_elses(said: str) -> None:
    app = App(cached(content_length=said))
    async with Fleet(app) as fleet:
        for number in (1, 2):
            try:
                answer = await fleet.get()
            except Exception as error:
                assert "Content-Length" in str(error)
            else:
                assert answer.body == b"answer %d" % number
        assert app.calls == 2
