"""A writer of a large body that nobody reads, or that gets no lease for its next piece, ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.engine.doors.judged import JudgedDoor
from stampede_guard.http.large.bodies import LargeBodies
from stampede_guard.http.pieces import writing
from stampede_guard.http.pieces.piece import PIECE_BYTES
from stampede_guard.http.pieces.writing import PieceWriter
from tests.http.fleet import Fleet
from tests.http.large.bodies import LargeApp, has_bytes, let_go
from tests.http.large.content import OPTIONS, is_whole
from tests.http.test_traps_streaming import Client
from tests.support.gate import until


async def test_a_writer_whose_flight_was_cancelled_before_its_first_piece_was_stored_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()
    begin = LargeBodies.begin

    async def is_kept(*_: Any) -> bool:
        asked.set()
        await go.wait()
        return False

    async def cancelled(self: LargeBodies, *given: Any) -> None:
        beginning = asyncio.ensure_future(begin(self, *given))
        await asked.wait()
        beginning.cancel()
        await asyncio.wait({beginning})
        go.set()

    monkeypatch.setattr(PieceWriter, "_is_kept", is_kept)
    monkeypatch.setattr(LargeBodies, "begin", cancelled)
    async with Fleet(LargeApp(), **OPTIONS) as fleet:
        client = Client(fleet)
        await go.wait()
        await until(lambda: not fleet.middlewares[0].cache.large._writing)
        client.task.cancel()
        await asyncio.wait({client.task})


async def test_a_piece_that_gets_no_lease_in_time_goes_to_its_own_client_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compute = JudgedDoor.compute
    asked = asyncio.Event()

    async def never() -> None:
        asked.set()
        await asyncio.Event().wait()

    def computed(self: JudgedDoor, plan: Any, name: str, *given: Any, **more: Any) -> Any:
        return never() if name.endswith(".2") else compute(self, plan, name, *given, **more)

    begin = writing.PieceWriter._begin

    async def begun(self: writing.PieceWriter, number: int) -> bool:
        # On a busy machine, the pieces before it may need longer.
        monkeypatch.setattr(writing, "LEASE_SECONDS", 0.05 if number == 2 else 30.0)
        return await begin(self, number)

    monkeypatch.setattr(JudgedDoor, "compute", computed)
    monkeypatch.setattr(writing.PieceWriter, "_begin", begun)
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    async with Fleet(app, **OPTIONS) as fleet:
        own = Client(fleet)
        await has_bytes(own, PIECE_BYTES)
        let_go(app.more)
        async with asyncio.timeout(30):
            await own.task
        assert asked.is_set() and is_whole(own.body)
