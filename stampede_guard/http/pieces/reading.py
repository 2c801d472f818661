"""A body that is stored in pieces, read in order while it is written, in this process or another."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from stampede_guard.engine.engine import NOTHING, Engine
from stampede_guard.errors import StampedeError
from stampede_guard.http.pieces.handover import Handover
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import NOT_COMING, PieceGone
from stampede_guard.http.spec.ranges import ByteSpan

if TYPE_CHECKING:
    from stampede_guard.engine.plan import Plan

__all__ = ["read_pieces"]


async def read_pieces(
    engine: Engine, plan: Plan, layout: PieceLayout, wanted: ByteSpan, own: Handover | None = None
) -> AsyncGenerator[bytes, None]:
    """The wanted bytes, one piece in memory at a time. Raises `PieceGone`. `own`: of the client whose call it is."""
    try:
        for number, begin, end in layout.cuts(wanted):
            if own is not None:
                own.read_up_to(number)
            piece = await _read(engine, plan, layout, number)
            if own is not None and piece == NOT_COMING:
                piece = own.find(number) or NOT_COMING
            if len(piece) != layout.bytes_in(number):
                raise PieceGone(f"piece {number} of {layout.total} is gone")
            yield piece[begin:end]
    finally:
        if own is not None:
            own.leave()


async def _read(engine: Engine, plan: Plan, layout: PieceLayout, number: int) -> bytes:
    name = engine.prefix + layout.name(number)
    try:
        reading, piece = await engine.judged.read(plan, name)
        if piece is NOTHING:
            # The lease of a missing piece is held by its writer: see `writing`.
            piece = await engine.judged.compute(plan, name, _nobody_writes, reading, bypassed=False)
    except StampedeError:
        return NOT_COMING
    return bytes(piece)


async def _nobody_writes() -> bytes:
    return NOT_COMING
