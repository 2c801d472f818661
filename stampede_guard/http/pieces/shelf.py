"""The pieces of one body in the store, without flights: put, looked at and dropped by whoever knows their names."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from stampede_guard.engine.engine import NOTHING
from stampede_guard.errors import StampedeError
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import PieceGone, PieceUnread

if TYPE_CHECKING:
    from stampede_guard.engine.engine import Engine
    from stampede_guard.engine.plan import Plan

__all__ = ["Shelf"]


class Shelf:
    """`layout`: its length may be unknown yet."""

    def __init__(self, engine: Engine, plan: Plan, layout: PieceLayout) -> None:
        self._engine, self._plan, self._layout = engine, plan, layout

    def is_away(self, number: int) -> bool:
        """Whether the store keeps no such piece now."""
        return self._engine.judged.is_away(self._name(number))

    async def put(self, number: int, piece: bytes) -> bool:
        """Whether the store keeps it."""
        return await self._engine.judged.put(self._plan, self._name(number), piece, self._plan.policy)

    async def look(self, number: int) -> bytes:
        """Raises `PieceGone`, and `PieceUnread` if the store is away."""
        _, piece = await self._engine.judged.read(self._plan, self._name(number))
        if piece is not NOTHING:
            return bytes(piece)
        if self.is_away(number):
            raise PieceUnread(f"piece {number} was not read: the store is away", is_away=True)
        raise PieceGone(f"piece {number} is gone", number=number)

    async def drop(self, count: int) -> None:
        """The first pieces, which nobody can come to any more. They would fill the store for the whole lifetime of the
        response. Ends at the first one that the store does not delete now.
        """
        with contextlib.suppress(StampedeError):
            for number in range(count):
                if self.is_away(number):
                    return
                name, policy = self._name(number), self._plan.policy
                if await self._engine.invalidate(name, policy, told=False) == "pending":
                    return

    def _name(self, number: int) -> str:
        return self._engine.prefix + self._layout.name(number)
