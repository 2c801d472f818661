"""A renewal in the background runs with the request of whoever came first: what he is refused says nothing of the page.

What is stored was stored for all, and is still served; the next of those who are not known renews it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.http.fleet import App, Fleet, start, status_of
from tests.http.test_herd import joined

STALE = {"cache-control": "max-age=10, stale-while-revalidate=60"}
PUBLIC = {"cache-control": "public, max-age=10, stale-while-revalidate=60"}
REFUSED: list[tuple[str, dict[str, str], dict[str, str], int]] = [
    ("authorization", STALE, STALE, 200),  # 'authorization': not for all
    ("cookie", STALE, STALE, 200),  # 'credentials': not for all either
    ("cookie", PUBLIC, {"cache-control": "private"}, 200),
    ("cookie", PUBLIC, {"cache-control": "no-store"}, 200),
    ("x_api_key", PUBLIC, {"set-cookie": "a=b"}, 200),
    ("authorization", PUBLIC, {}, 403),
]


class Telling(App):
    """Answers those who say who they are in another way."""

    def __init__(self, said: dict[str, str], known: dict[str, str], status: int) -> None:
        super().__init__(said)
        self.handler = self._answer
        self.of_the_known = 0
        self._known, self._status = known, status

    async def _answer(self, scope: Any, receive: Any, send: Any, number: int) -> None:
        await self.go.wait()
        names = {name for name, _ in scope["headers"]}
        known = bool(names & {b"cookie", b"authorization", b"x-api-key"})
        self.of_the_known += known
        await start(send, self._known if known else self.headers, self._status if known else 200)
        await send({"type": "http.response.body", "body": b"answer %d" % number})


async def stale_hit(fleet: Fleet, process: int = 0, method: str = "GET", **fields: str) -> None:
    answer = await fleet.get(process=process, method=method, **fields)
    assert "hit; ttl=-" in status_of(answer), status_of(answer)
    await fleet.settled()


@pytest.mark.parametrize(("field", "said", "known", "status"), REFUSED)
@pytest.mark.parametrize("process", [0, 1])
async def test_what_a_known_client_is_refused_does_not_keep_others_from_renewing(
    field: str, said: dict[str, str], known: dict[str, str], status: int, process: int
) -> None:
    app = Telling(said, known, status)
    async with Fleet(app, processes=2) as fleet:
        assert "stored" in status_of(await fleet.get())
        fleet.clock.advance(15)
        await stale_hit(fleet, **{field: "me"})
        assert app.calls == 2
        await stale_hit(fleet, process)
        assert app.calls == 3
        for number in (0, 1):
            answer = await fleet.get(process=number)
            assert answer.body == b"answer 3" and "hit; ttl=" in status_of(answer)
        assert app.calls == 3


@pytest.mark.parametrize(("field", "said", "known", "status"), REFUSED)
async def test_nor_does_it_let_a_herd_through_when_the_stale_time_is_over(
    field: str, said: dict[str, str], known: dict[str, str], status: int
) -> None:
    app = Telling(said, known, status)
    async with Fleet(app, processes=2) as fleet:
        await fleet.get()
        fleet.clock.advance(69)
        await stale_hit(fleet, **{field: "me"})
        fleet.clock.advance(4)
        app.go.clear()
        herd = fleet.herd(20)
        await app.called.wait()
        await asyncio.sleep(0)
        app.go.set()
        async with asyncio.timeout(60):
            assert {answer.body for answer in await asyncio.gather(*herd)} == {b"answer 3"}
        assert app.calls == 3


async def test_known_clients_ask_in_vain_once_per_process_and_moment() -> None:
    app = Telling(PUBLIC, {"cache-control": "private"}, 200)
    async with Fleet(app, processes=2) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        for number in range(20):
            await stale_hit(fleet, number % 2, cookie=f"{number}")
        assert app.of_the_known == 2
        fleet.clock.advance(11)
        await stale_hit(fleet, cookie="me")
        assert app.of_the_known == 3


async def test_where_nobody_can_be_stored_for_any_more_it_is_remembered_as_always() -> None:
    app = Telling(PUBLIC, {"cache-control": "private"}, 200)
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        app.headers = {"cache-control": "no-store"}
        await stale_hit(fleet)
        await stale_hit(fleet)
        await stale_hit(fleet)
        # Two visitors were refused.
        assert app.calls == 3


@pytest.mark.parametrize("told", [{}, {"content-length": "8"}], ids=["no length", "the same length"])
async def test_a_head_without_a_validator_renews_no_body(told: dict[str, str]) -> None:
    """1. A page changes, and its length does not. 2. A monitor asks with HEAD. 3. Visitors would get the old page."""
    app = App({"cache-control": "max-age=10"} | told)

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, app.headers)
        await send(
            {
                "type": "http.response.body",
                "body": b"" if scope["method"] == "HEAD" else b"answer %d" % number,
            }
        )

    app.handler = handler
    async with Fleet(app, processes=2) as fleet:
        await fleet.get()
        for calls in (2, 4):
            fleet.clock.advance(15)
            await fleet.get(method="HEAD")
            assert (await fleet.get(process=1)).body == b"answer %d" % (calls + 1)


async def test_a_refresh_behind_a_head_asks_for_the_body() -> None:
    app = App(PUBLIC)
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        await stale_hit(fleet, method="HEAD")
        assert [scope["method"] for scope in app.scopes] == ["GET", "GET"]
        answer = await fleet.get()
        assert answer.body == b"answer 2"
        assert "hit; ttl=10" in status_of(answer)


async def test_a_head_that_would_fail_keeps_nobody_from_renewing_and_is_not_asked_at_each_hit() -> None:
    app = App(PUBLIC)

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(
            send, {} if scope["method"] == "HEAD" else PUBLIC, 501 if scope["method"] == "HEAD" else 200
        )
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else b"page"})

    app.handler = handler
    async with Fleet(app, processes=2) as fleet:
        await fleet.get()
        fleet.clock.advance(15)
        await stale_hit(fleet, method="HEAD")
        for process in (0, 1):
            for method in ("HEAD", "GET"):
                assert "hit; ttl=10" in status_of(await fleet.get(process=process, method=method))
        assert app.calls == 2


async def test_in_the_foreground_private_pages_of_many_are_made_beside_each_other() -> None:
    app = App()
    all_there = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        if number > 1:
            if app.open == 19:
                all_there.set()
            await all_there.wait()
        await start(send, {"cache-control": "private"})
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    app.go.clear()
    async with Fleet(app, processes=2) as fleet:
        herd = fleet.herd(20, cookie="me")
        await joined(fleet, 20)
        app.go.set()
        async with asyncio.timeout(60):
            assert len({answer.body for answer in await asyncio.gather(*herd)}) == 20
