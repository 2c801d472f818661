"""Whoever says who he is goes past a route, in both directions; elsewhere the answer's own word decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.test_herd import joined

CREDENTIALS = ["cookie", "authorization", "x_api_key"]


@pytest.mark.parametrize("field", CREDENTIALS)
async def test_no_order_of_visits_gives_one_the_answer_of_the_other(field: str) -> None:
    for order in ((True, False), (False, True)):
        app = App({})
        async with Fleet(app, routes=[CacheRoute("/*", ttl=60)]) as fleet:
            bodies = [(await fleet.get(**({field: "me"} if known else {}))).body for known in order]
            assert bodies == [b"answer 1", b"answer 2"]


@pytest.mark.parametrize("field", CREDENTIALS)
async def test_a_herd_of_both_kinds_is_one_call_for_the_unknown_and_one_for_each_known(field: str) -> None:
    app = App({})
    app.go.clear()
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60)]) as fleet:
        unknown = fleet.herd(10)
        known = [asyncio.ensure_future(fleet.get(**{field: f"user {n}"})) for n in range(5)]
        await joined(fleet, 15)
        app.go.set()
        assert len({answer.body for answer in await asyncio.gather(*unknown)}) == 1
        assert len({answer.body for answer in await asyncio.gather(*known)}) == 5
        assert app.calls == 6


async def test_a_configured_field_counts_like_the_usual_ones_and_replaces_them() -> None:
    app = App({})
    options: Any = {"credential_headers": ("X-Session",), "routes": [CacheRoute("/*", ttl=60)]}
    async with Fleet(app, **options) as fleet:
        await fleet.get()
        assert (await fleet.get(x_session="me")).body == b"answer 2"
        assert (await fleet.get(x_api_key="anybody")).body == b"answer 1"
        assert (await fleet.get(cookie="me")).body == b"answer 3"


async def test_a_route_that_ignores_cookies_still_does_not_ignore_authorization() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, cookies="ignore")]) as fleet:
        await fleet.get(cookie="a")
        assert "hit" in status_of(await fleet.get(cookie="b"))
        for field in ("authorization", "x_api_key"):
            assert "hit" not in status_of(await fleet.get(**{field: "me"}))


@pytest.mark.parametrize(
    ("control", "shared"),
    [
        ("public, max-age=60", True),
        ("s-maxage=60", True),
        ("max-age=60, must-revalidate", True),
        ("max-age=60", False),
        ("private, s-maxage=60", False),
        ("no-store, public", False),
    ],
)
async def test_an_answer_to_authorization_is_shared_only_where_it_says_so(control: str, shared: bool) -> None:
    for routes in ([], [CacheRoute("/*", ttl=60)]):
        app = App({"cache-control": control})
        async with Fleet(app, routes=routes) as fleet:
            await fleet.get(authorization="Bearer a")
            answer = await fleet.get(authorization="Bearer b")
            assert ("hit" in status_of(answer)) is shared
            assert (answer.body == b"answer 1") is shared


@pytest.mark.parametrize(("control", "shared"), [("must-revalidate", False), ("public", True)])
async def test_what_is_for_all_who_know_a_password_is_not_for_all_who_have_a_session(
    control: str, shared: bool
) -> None:
    """A browser sends both to a site that asks all its visitors for one password."""
    app = App({"cache-control": f"max-age=60, {control}"})
    async with Fleet(app) as fleet:
        await fleet.get(authorization="Basic all", cookie="session=me")
        answer = await fleet.get(authorization="Basic all", cookie="session=you")
        assert ("hit" in status_of(answer)) is shared


@pytest.mark.parametrize("field", CREDENTIALS)
async def test_no_lifetime_is_guessed_for_an_answer_to_somebody(field: str) -> None:
    said_nothing = {"last-modified": "Wed, 01 Jan 2020 00:00:00 GMT", "etag": '"a"'}
    app = App(said_nothing)
    async with Fleet(app, heuristics=True) as fleet:
        first = await fleet.get(**{field: "me"})
        assert "stored" not in status_of(first)
        assert (await fleet.get()).body == b"answer 2"
        assert "hit" in status_of(await fleet.get())
    for told in ("public, max-age=60", "s-maxage=60"):
        app = App(said_nothing | {"cache-control": told})
        async with Fleet(app) as fleet:
            await fleet.get(**{field: "me"})
            assert "hit" in status_of(await fleet.get())


async def test_what_is_validated_each_time_is_asked_for_by_each_with_his_own_cookie() -> None:
    app = App({"cache-control": "no-cache", "etag": '"a"'})
    async with Fleet(app) as fleet:
        for user in ("me", "you"):
            await fleet.get(cookie=user)
            assert (b"cookie", user.encode()) in app.scopes[-1]["headers"]
        assert app.calls == 2


async def test_a_cookie_does_not_keep_what_is_explicitly_for_all_from_being_stored() -> None:
    app = App(cached(cache_control="public, max-age=60"))
    async with Fleet(app) as fleet:
        await fleet.get(cookie="me")
        assert "hit" in status_of(await fleet.get(cookie="you"))


GUESSED = {"last-modified": "Wed, 01 Jan 2020 00:00:00 GMT"}


@pytest.mark.parametrize(("field", "said"), [("authorization", cached()), ("cookie", GUESSED)])
@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("known", [1, 3])
async def test_who_is_known_comes_first_and_does_not_let_the_herd_through(
    field: str, said: dict[str, str], processes: int, known: int
) -> None:
    app = App(said)
    app.go.clear()
    async with Fleet(app, processes=processes, heuristics=True) as fleet:
        first = [asyncio.ensure_future(fleet.get(process=0, **{field: f"{n}"})) for n in range(known)]
        await joined(fleet, known)
        await app.called.wait()
        herd = fleet.herd(21)
        await joined(fleet, known + 21)
        app.go.set()
        async with asyncio.timeout(60):
            answers, of_the_known = await asyncio.gather(*herd), await asyncio.gather(*first)
        assert len({answer.body for answer in answers}) == 1
        assert app.calls <= known + 1
        own = {answer.body for answer in of_the_known} - {answers[0].body}
        assert len(own) >= 1
        assert not own & {answer.body for answer in answers}
        await fleet.settled()
        assert "hit" in status_of(await fleet.get())


@pytest.mark.parametrize("field", ["authorization", "cookie"])
async def test_where_only_other_processes_wait_one_of_them_asks_next(field: str) -> None:
    app = App(cached() if field == "authorization" else GUESSED)
    app.go.clear()
    async with Fleet(app, processes=3, heuristics=True) as fleet:
        first = asyncio.ensure_future(fleet.get(process=0, **{field: "me"}))
        await app.called.wait()
        herd = [asyncio.ensure_future(fleet.get(process=1 + n % 2)) for n in range(20)]
        await joined(fleet, 21)
        app.go.set()
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*herd)
        assert (await first).body == b"answer 1"
        assert {answer.body for answer in answers} == {b"answer 2"}
        assert app.calls == 2


async def test_who_asks_for_the_others_is_answered_once_where_his_answer_is_not_storable_either() -> None:
    app = App(cached())

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await start(send, cached() if number == 1 else {"cache-control": "no-store"})
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        first = asyncio.ensure_future(fleet.get(authorization="me"))
        await joined(fleet, 1)
        herd = fleet.herd(10)
        await joined(fleet, 11)
        app.go.set()
        answers = await asyncio.gather(first, *herd)
        await fleet.settled()
        assert {answer.body for answer in answers} == {b"answer %d" % number for number in range(1, 12)}
        assert app.calls == 11


@pytest.mark.parametrize("status", [200, 404, 503])
async def test_who_came_first_does_not_wait_for_what_is_asked_for_the_others(status: int) -> None:
    app = App()
    rest = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await (app.go if number == 1 else rest).wait()
        await start(send, cached(), status if number == 1 else 200)
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        first = asyncio.ensure_future(fleet.get(authorization="me"))
        await joined(fleet, 1)
        herd = fleet.herd(5)
        await joined(fleet, 6)
        app.go.set()
        async with asyncio.timeout(60):
            answer = await first
        assert (answer.status, answer.body) == (status, b"answer 1")
        rest.set()
        async with asyncio.timeout(60):
            assert b"answer 1" not in {answer.body for answer in await asyncio.gather(*herd)}
