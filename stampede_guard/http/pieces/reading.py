"""A body that is stored in pieces, read in order while it is written, in this process or another.

A reader waits for a missing piece by a flight of its own (see `writing`). If the writer has not begun that piece yet,
such a flight would be granted its lease, and so break the body for everybody. So a range that begins further on looks
at the store alone, without a flight. Only behind a piece that is stored does it wait.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from stampede_guard.engine.engine import CURRENT, NOTHING, Engine
from stampede_guard.errors import StampedeError
from stampede_guard.http.pieces.handover import Handover
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import NOT_COMING, PieceGone, PieceUnread
from stampede_guard.http.spec.ranges import ByteSpan

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Plan

__all__ = ["read_pieces"]


async def read_pieces(
    engine: Engine, plan: Plan, layout: PieceLayout, wanted: ByteSpan, own: Handover | None = None
) -> AsyncGenerator[bytes, None]:
    """The wanted bytes, one piece in memory at a time. Raises `PieceGone`, and `PieceUnread`.

    `own`: of the client whose call it is. It waits for the application, however long the store does not answer.
    """
    reader = _PieceReader(engine, plan, layout)
    try:
        for number, begin, end in layout.cuts(wanted):
            piece = None
            if own is not None:
                piece = await own.take(number, within=plan.policy.compute_timeout)
            if piece is None:
                piece = await reader.read(number)
            yield piece[begin:end]
    finally:
        if own is not None:
            own.leave()


class _PieceReader:
    def __init__(self, engine: Engine, plan: Plan, layout: PieceLayout) -> None:
        self._engine, self._plan, self._layout = engine, plan, layout
        self._begun = 0
        """The writer has begun this piece and all before it."""

    async def read(self, number: int) -> bytes:
        if number > self._begun:
            piece = await self._stored(number)
            if piece is not None:
                self._begun = number + 1
                return piece
            await self._come_to(number)
        return await self._awaited(number)

    async def _come_to(self, number: int) -> None:
        """Waits until the writer has begun this piece, which is not stored."""
        missing = number
        while self._begun < missing:
            middle = (self._begun + missing) // 2
            if await self._stored(middle) is None:
                missing = middle
            else:
                self._begun = middle + 1
        for before in range(self._begun, number):
            await self._awaited(before)

    async def _stored(self, number: int) -> bytes | None:
        """Takes no part in a flight."""
        _, piece = await self._engine.judged.read(self._plan, self._name(number))
        return None if piece is NOTHING else self._checked(number, piece)

    async def _awaited(self, number: int) -> bytes:
        name, judged = self._name(number), self._engine.judged
        is_granted = True

        async def nobody_writes() -> bytes:
            nonlocal is_granted
            flight = CURRENT.get()
            is_granted = flight is not None and not flight.computation.is_alone
            return NOT_COMING

        try:
            reading, piece = await judged.read(self._plan, name)
            if piece is NOTHING:
                # The lease of a missing piece is held by its writer: see `writing`.
                piece = await judged.compute(self._plan, name, nobody_writes, reading, bypassed=False)
        except StampedeError as error:
            raise PieceUnread(f"piece {number} was not read", is_away=judged.is_away(name)) from error
        if piece == NOT_COMING and (not is_granted or judged.is_away(name)):
            raise PieceUnread(f"piece {number} was not read: the store is away", is_away=True)
        checked = self._checked(number, piece)
        self._begun = max(self._begun, number + 1)
        return checked

    def _checked(self, number: int, piece: bytes) -> bytes:
        if len(piece) != self._layout.bytes_in(number):
            raise PieceGone(f"piece {number} of {self._layout.total} is gone", number=number)
        return bytes(piece)

    def _name(self, number: int) -> str:
        return self._engine.prefix + self._layout.name(number)
