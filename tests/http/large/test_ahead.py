"""Ranges of a body that is still written: they wait for its writer, and take nothing from the other readers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.errors import Overloaded
from stampede_guard.http.pieces.piece import PIECE_BYTES, PieceUnread
from tests.http.fleet import Fleet
from tests.http.large.bodies import LargeApp, has_bytes, is_broken, let_go
from tests.http.large.content import OPTIONS, is_whole, whole
from tests.http.test_traps_streaming import Client
from tests.support.gate import until


async def test_a_range_ahead_of_the_writer_waits_and_breaks_nobody() -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        own = Client(fleet)
        await has_bytes(own, PIECE_BYTES)
        other = Client(fleet, process=1)
        await has_bytes(other, PIECE_BYTES)
        app.more.release()
        begin = 2 * PIECE_BYTES
        ahead = asyncio.ensure_future(fleet.get(range=f"bytes={begin}-{begin + 9}"))
        for _ in range(60):
            await asyncio.sleep(0)
        let_go(app.more)
        async with asyncio.timeout(60):
            await asyncio.wait({own.task, other.task, ahead})
        assert is_whole(own.body) and is_whole(other.body)
        assert ahead.result().body == whole()[begin : begin + 10] and app.calls == 1


async def test_a_range_that_comes_first_is_answered_by_the_call_that_it_begins() -> None:
    for wanted in ("bytes=-7", f"bytes={PIECE_BYTES}-{PIECE_BYTES + 6}", "bytes=0-6"):
        app = LargeApp()
        async with Fleet(app, **OPTIONS) as fleet:
            answer = await fleet.get(range=wanted)
            assert (answer.status, len(answer.body), app.calls) == (206, 7, 1)
            assert is_whole((await fleet.get()).body) and app.calls == 1


async def test_seeking_players_cost_one_call_while_a_body_is_written() -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        own = Client(fleet)
        await has_bytes(own, PIECE_BYTES)
        begins = [n * PIECE_BYTES + 5 for n in (1, 2, 3, 3, 2, 1)]
        seeking = [
            asyncio.ensure_future(fleet.get(process=n % 2, range=f"bytes={begin}-{begin + 99}"))
            for n, begin in enumerate(begins)
        ]
        for _ in range(60):
            await asyncio.sleep(0)
        for _ in range(3):
            app.more.release()
            for _ in range(60):
                await asyncio.sleep(0)
        async with asyncio.timeout(60):
            answers = await asyncio.gather(*seeking)
        assert [answer.body for answer in answers] == [whole()[n : n + 100] for n in begins]
        await own.task
        assert is_whole(own.body) and app.calls == 1


async def test_an_error_of_one_process_breaks_its_own_client_and_the_response_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    async with Fleet(app, processes=2, **OPTIONS) as fleet:
        own = Client(fleet)
        await has_bytes(own, PIECE_BYTES)

        async def overloaded(*_: Any, **__: Any) -> Any:
            raise Overloaded("too many wait")

        other = Client(fleet, process=1, tickets=1)
        await until(lambda: bool(other.messages))
        monkeypatch.setattr(fleet.guards[1].engine.judged, "compute", overloaded)
        let_go(other.ticket)
        await is_broken(other, PieceUnread)
        begin = 2 * PIECE_BYTES
        seeking = await fleet.get(process=1, range=f"bytes={begin}-{begin + 9}")
        assert (seeking.status, seeking.get("retry-after")) == (503, "1")
        let_go(app.more)
        await own.task
        assert is_whole(own.body)
        for process in (0, 1):
            assert is_whole((await fleet.get(process=process)).body)
        assert app.calls == 1
