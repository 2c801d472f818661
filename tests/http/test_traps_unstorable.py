"""An answer that turns out not to be storable makes nobody wait, now or in the next moments."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard import Policy
from tests.http.fleet import App, Fleet, cached, status_of
from tests.http.test_herd import joined
from tests.support.gate import until

PRIVATE = {"cache-control": "private, max-age=60"}


@pytest.mark.parametrize("process", [0, 1])
async def test_it_is_remembered_in_all_processes_so_the_next_herd_runs_beside_each_other_at_once(
    process: int,
) -> None:
    app = App(PRIVATE)
    async with Fleet(app, processes=2) as fleet:
        for _ in range(2):
            assert "detail=private" in status_of(await fleet.get())
        # In its own process without a question to the store.
        assert "detail=uncacheable" in status_of(await fleet.get())
        app.go.clear()
        herd = [asyncio.ensure_future(fleet.get(process=process)) for _ in range(20)]
        await until(lambda: app.open == 20)
        app.go.set()
        assert len({answer.body for answer in await asyncio.gather(*herd)}) == 20


async def test_the_first_storable_answer_ends_it() -> None:
    app = App(PRIVATE)
    async with Fleet(app) as fleet:
        for _ in range(3):
            await fleet.get()
        app.headers = cached()
        for _ in range(2):
            last = await fleet.get()
        calls = app.calls
        assert calls <= 5
        last = await fleet.get()
        assert "hit" in status_of(last)
        assert app.calls == calls


async def test_a_herd_is_one_call_again_when_the_moment_is_over() -> None:
    app = App(PRIVATE)
    async with Fleet(app) as fleet:
        for _ in range(3):
            await fleet.get()
        await fleet.settled()
        fleet.clock.advance(Policy().uncacheable_ttl + 1)
        app.headers = cached()
        app.go.clear()
        before = app.calls
        herd = fleet.herd(10)
        await joined(fleet, 10)
        app.go.set()
        assert len({answer.body for answer in await asyncio.gather(*herd)}) == 1
        assert app.calls == before + 1


async def test_the_waiters_are_let_go_by_the_first_line_and_not_by_the_end() -> None:
    app = App()
    ended = asyncio.Event()

    async def handler(scope: object, receive: object, send: object, number: int) -> None:
        await app.go.wait()
        assert callable(send)
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"no-store")]}
        )
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        if number == 1:
            await ended.wait()
        await send({"type": "http.response.body", "body": b"%d" % number})

    app.handler = handler
    app.go.clear()
    async with Fleet(app, processes=2) as fleet:
        herd = fleet.herd(6)
        await joined(fleet, 6)
        app.go.set()
        done: set[asyncio.Task[object]] = set()
        async with asyncio.timeout(60):
            while len(done) < 5:
                done, _ = await asyncio.wait(herd, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)
        ended.set()
        bodies = {answer.body for answer in await asyncio.gather(*herd)}
        assert bodies == {b"begun%d" % number for number in range(1, 7)}


async def test_one_private_answer_between_public_ones_takes_nothing_from_the_store() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        await fleet.get()
        app.headers = PRIVATE
        assert (await fleet.get(cache_control="no-cache")).body == b"answer 2"
        assert (await fleet.get("/other")).body == b"answer 3"
        assert (await fleet.get(cache_control="no-cache")).body == b"answer 4"


async def test_the_moment_is_over_some_time_also_without_the_store() -> None:
    app = App({"cache-control": "no-store"})
    async with Fleet(app) as fleet:
        fleet.guards[0].mode = "bypass"
        for _ in range(2):
            await fleet.get()
        fleet.clock.advance(11)
        app.headers = cached()
        app.go.clear()
        herd = fleet.herd(10)
        await joined(fleet, 10)
        app.go.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*herd)
        assert app.calls == 3
