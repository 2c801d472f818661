"""What one requester is answered, and what follows for those who are not like it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.http.fleet import App, Fleet, cached, status_of
from tests.support.gate import until
from tests.traps.test_http import behind, telling
from tests.traps.web import serving


def odd(name: str, said: dict[str, str], body: bytes = b"mine") -> App:
    """The page for everybody, and something else for one."""

    def answer(fields: dict[str, str], number: int) -> Any:
        return (said, 200, body) if fields.get(name) == "me" else (cached(), 200, b"page")

    return telling(App(), answer)


def waiting(fleet: Fleet) -> int:
    return sum(flight.joined for guard in fleet.guards for flight in guard.engine.runtime().flights.values())


@pytest.mark.parametrize("said", ["no-cache", "max-age=0", "max-age=60, no-cache", "public, s-maxage=0"])
@pytest.mark.parametrize("field", ["x_bad", "cookie", "user_agent", "accept"])
async def test_an_answer_that_is_of_no_use_to_others_lets_none_of_them_through(field: str, said: str) -> None:
    app = odd(field.replace("_", "-"), {"cache-control": said})
    async with serving(app) as site:
        answers = await behind(site, {field: "me"}, 40)
        assert {answer.body for answer in answers} == {b"page"}
        assert app.calls == 2


@pytest.mark.parametrize("length", [True, False])
async def test_a_large_answer_to_one_lets_nobody_through_who_is_not_like_it(length: bool) -> None:
    large = cached() | ({"content-length": "5000000"} if length else {})
    app = odd("accept", large, b"x" * 5_000_000)
    async with serving(app) as site:
        answers = await behind(site, {"accept": "me"}, 40)
        assert {answer.body for answer in answers} == {b"page"}
        assert app.calls == 2


@pytest.mark.parametrize("field", ["user_agent", "accept", "x_bad", "cookie"])
@pytest.mark.parametrize("processes", [1, 2])
async def test_the_same_stranger_again_and_again_makes_no_url_uncacheable(field: str, processes: int) -> None:
    app = odd(field.replace("_", "-"), {"cache-control": "no-store"})
    async with Fleet(app, processes=processes) as fleet:
        for number in range(6):
            await fleet.get(process=number % processes, **{field: "me"})
        app.go.clear()
        calls = app.calls
        herd = fleet.herd(20)
        await until(lambda: waiting(fleet) >= 20)
        app.go.set()
        assert {(await one).body for one in herd} == {b"page"}
        assert app.calls == calls + 1


async def test_who_is_like_the_refused_does_not_wait_in_any_process() -> None:
    app = App({"cache-control": "no-store"})
    async with Fleet(app, processes=2) as fleet:
        for _ in range(2):
            assert "uncacheable" not in status_of(await fleet.get(user_agent="one"))
        for process in (0, 1):
            assert "uncacheable" in status_of(await fleet.get(process=process, user_agent="one"))
            assert "uncacheable" not in status_of(await fleet.get("/other", process=process))


async def test_two_different_visitors_make_a_url_uncacheable_for_all() -> None:
    async with Fleet(App({"cache-control": "no-store"})) as fleet:
        for agent in ("one", "another"):
            assert "uncacheable" not in status_of(await fleet.get(user_agent=agent))
        assert "uncacheable" in status_of(await fleet.get(user_agent="a third"))


async def test_a_wish_that_one_alone_has_lets_nobody_through() -> None:
    """Who wants an answer that is fresh for years asks again by itself."""
    app = App()
    async with Fleet(app) as fleet:
        app.go.clear()
        leader = asyncio.ensure_future(fleet.get())
        await app.called.wait()
        wishing = asyncio.ensure_future(fleet.get(cache_control="min-fresh=1000000"))
        await until(lambda: waiting(fleet) >= 2)
        app.go.set()
        await asyncio.gather(leader, wishing)
        fleet.clock.advance(61)
        app.go.clear()
        calls = app.calls
        herd = fleet.herd(10)
        await until(lambda: waiting(fleet) >= 10)
        app.go.set()
        await asyncio.gather(*herd)
        assert app.calls == calls + 1
