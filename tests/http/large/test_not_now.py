"""A large response that cannot be stored just now: nothing is remembered of it."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.http.pieces.writing import PieceWriter
from stampede_guard.testing import FaultyStore
from tests.http.fleet import Fleet, status_of
from tests.http.large.bodies import LargeApp
from tests.http.large.content import OPTIONS, is_whole
from tests.support.clock import Clock
from tests.support.gate import until


async def test_a_lease_that_is_refused_once_does_not_make_the_url_uncacheable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready, refused = PieceWriter.ready, []

    async def first_refused(self: PieceWriter) -> bool:
        if not refused:
            refused.append(self)
            return False
        return await ready(self)

    monkeypatch.setattr(PieceWriter, "ready", first_refused)
    app = LargeApp()
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        first = await fleet.get()
        assert is_whole(first.body) and "detail=store" in status_of(first)
        for process in (0, 1, 0):
            answer = await fleet.get(process=process)
            assert is_whole(answer.body, 2), status_of(answer)
        assert app.calls == 2


async def test_all_who_waited_for_a_lease_that_is_refused_are_released_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(_: PieceWriter) -> bool:
        return False

    monkeypatch.setattr(PieceWriter, "ready", refused)
    app = LargeApp()
    app.go.clear()
    async with Fleet(app, **OPTIONS) as fleet:
        herd = fleet.herd(5)
        await until(
            lambda: sum(len(waiting) for waiting in fleet.middlewares[0].cache._waiting.values()) == 5
        )
        app.go.set()
        app.more = asyncio.Semaphore(0)
        # None of them waits for the body of another.
        await until(lambda: app.calls == 5)
        for _ in range(100):
            app.more.release()
        answers = await asyncio.gather(*herd)
        assert sorted(answer.body[:9] for answer in answers) == [b"%08d|" % n for n in range(1, 6)]


async def test_a_store_that_comes_back_has_large_responses_again_at_once() -> None:
    app = LargeApp()
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, **OPTIONS) as fleet:
        store.fail()
        while not fleet.guards[0].engine.runtime().away:
            await fleet.get("/something")
        for number in (app.calls + 1, app.calls + 2):
            assert is_whole((await fleet.get()).body, number)
        store.recover()
        await until(lambda: not fleet.guards[0].engine.runtime().away)
        calls = app.calls
        for _ in range(2):
            answer = await fleet.get()
            assert is_whole(answer.body, calls + 1), status_of(answer)
