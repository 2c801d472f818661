"""The process that called the application stores its body, piece by piece.

Each piece is an entry, computed by a flight. So all that holds for entries holds for pieces: one lease, renewed and
fenced; waiters in all processes; wake-ups; a killed holder is noticed in under a second. Why no reader overtakes it:

1. Piece 0 is stored. Only then is the response with its layout published, and readers come.
2. The flight of piece n + 1 has its lease before piece n is published.
3. So a reader that asks for a missing piece of a living writer finds it held, and waits for it. If it is granted the
   lease instead, the writer is gone, or the store has dropped the piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from stampede_guard.engine.engine import CURRENT, NOTHING
from stampede_guard.engine.tasks import retrieve
from stampede_guard.http.pieces.handover import Handover
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import NOT_COMING, PieceGone

if TYPE_CHECKING:
    from stampede_guard.engine.engine import Engine
    from stampede_guard.engine.plan import Plan

__all__ = ["LEASE_SECONDS", "PieceWriter"]

LEASE_SECONDS = 5.0
"""If a lease takes longer, the store is overloaded, or the flight waits for a turn of the computations without it.
The flight of the response may have that turn, and wait for the first piece.
"""
_TRIES = 5
"""A process of another version may look for a piece before its writer has begun it."""


class _Turn:
    """One piece on its way: `begun` when its lease is held, `bytes` when the application has made it. `is_alone`: it
    has no lease, because the store did not answer or refused.
    """

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.is_alone = False
        self.bytes: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.flight: asyncio.Future[bytes] | None = None


class PieceWriter:
    """Holds two pieces at most: one that is being stored, and one that is being filled. `own` has those that the store
    does not keep. `first` tells whether it has kept the first one. `published` counts the pieces that
    it was given.
    """

    def __init__(self, engine: Engine, plan: Plan, layout: PieceLayout) -> None:
        self.own = Handover()
        self.published = 0
        self.first: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._engine, self._plan, self._layout = engine, plan, layout
        self._turns: dict[int, _Turn] = {}
        self._is_cut_off = False

    async def ready(self) -> bool:
        """Whether the lease of the first piece is held, so that readers may come."""
        return await self._begin(0)

    async def write(self, chunks: AsyncIterator[bytes]) -> None:
        """Raises what `chunks` raises, and `PieceGone` if there are not as many bytes as announced, or a piece could
        not be stored. Then call `give_up`.
        """
        number, layout = 0, self._layout
        buffer = bytearray()
        async for chunk in chunks:
            buffer += chunk
            while number < layout.total and len(buffer) >= layout.bytes_in(number):
                piece = bytes(buffer[: layout.bytes_in(number)])
                del buffer[: len(piece)]
                await self._store(number, piece)
                number += 1
        if number < layout.total or buffer:
            raise PieceGone("the body is not as long as announced")
        if self._is_cut_off:
            raise PieceGone("the store does not have all pieces")

    def give_up(self) -> None:
        """The pieces that will not come are told to their waiters at once, in all processes."""
        self._end_turns()
        self.own.end()

    def _end_turns(self) -> None:
        for turn in self._turns.values():
            if not turn.bytes.done():
                turn.bytes.set_result(NOT_COMING)
        self._turns.clear()
        if not self.first.done():
            self.first.set_result(False)

    async def _store(self, number: int, piece: bytes) -> None:
        if self._is_cut_off or self._is_away(number):
            return await self._hand_over(number, piece)
        if number + 1 < self._layout.total and not await self._begin(number + 1):
            # The store is away, refuses or is slow, or somebody else writes that piece.
            return await self._hand_over(number, piece)
        turn = self._turns[number]
        self.own.hold(number, piece)
        self.published = number + 1
        if not turn.bytes.done():
            turn.bytes.set_result(piece)
        assert turn.flight is not None
        if await turn.flight != piece:
            raise PieceGone(f"piece {number} was given up elsewhere")
        del self._turns[number]
        kept = await self._is_kept(number)
        if not self.first.done():
            self.first.set_result(kept)
        if kept:
            self.own.drop(number)
        else:
            await self.own.taken(number)

    async def _hand_over(self, number: int, piece: bytes) -> None:
        """Without a lease for each piece: to its own client alone. Flights would need turns of the process's few
        computations without the store, and what they make would be stored nowhere.
        """
        self._is_cut_off = True
        self.own.hold(number, piece)
        turn = self._turns.pop(number, None)
        if turn is not None and not turn.bytes.done():
            turn.bytes.set_result(piece)
        self._end_turns()
        if self.own.needed is None:
            raise PieceGone("the store does not take all pieces, and the client has left")
        await self.own.taken(number)

    def _is_away(self, number: int) -> bool:
        return self._engine.judged.is_away(self._engine.prefix + self._layout.name(number))

    async def _is_kept(self, number: int) -> bool:
        """Asks the store. One that is full hands a value to its waiters without storing it."""
        judged, name = self._engine.judged, self._engine.prefix + self._layout.name(number)
        if self.own.needed is None and self.first.done():
            return True
        _, found = await judged.read(self._plan, name)
        return found is not NOTHING and not judged.is_away(name)

    async def _begin(self, number: int) -> bool:
        for _ in range(_TRIES):
            turn = _Turn()
            flight = self._take_off(number, turn)
            begun: asyncio.Future[Any] = asyncio.ensure_future(turn.begun.wait())
            try:
                both = {flight, begun}
                await asyncio.wait(both, timeout=LEASE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                begun.cancel()
            if turn.begun.is_set() and not turn.is_alone:
                return True
            if not flight.done():
                turn.bytes.set_result(NOT_COMING)
                flight.cancel()
                return False
            if flight.exception() is not None or flight.result() != NOT_COMING:
                return False
        return False

    def _take_off(self, number: int, turn: _Turn) -> asyncio.Future[bytes]:
        async def run() -> bytes:
            current = CURRENT.get()
            turn.is_alone = current is not None and current.computation.is_alone
            turn.begun.set()
            return await turn.bytes

        name = self._engine.prefix + self._layout.name(number)
        call = _awaited(self._engine.judged.compute(self._plan, name, run, None, bypassed=False))
        # In its own context: the computation in whose context this runs does not wait for it.
        flight = asyncio.get_running_loop().create_task(call, context=Context())
        flight.add_done_callback(retrieve)
        turn.flight = flight
        self._turns[number] = turn
        return flight


async def _awaited(flight: Awaitable[bytes]) -> bytes:
    return await flight
