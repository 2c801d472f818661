"""A herd whose computation is interrupted: what the scenarios of cancelled callers and killed holders share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bench.peers.fleet import PeerFailed, Worker
from bench.peers.outcome import Outcome
from bench.peers.stage import Stage

__all__ = ["interrupted"]

_UNTIL_ALL_WAIT = 0.2
_ATTEMPTS = 5


async def interrupted(
    stage: Stage, interrupt: Callable[[Worker], Awaitable[float]], *, patience: float, what: str
) -> tuple[Outcome, Worker, float]:
    """The outcome, whose computation was interrupted, and when.

    `interrupt` does it and returns the moment; `what` names it. On a crowded machine the computation may be over
    before: then it is played again. Raises `PeerFailed` when it always was.
    """
    for _ in range(_ATTEMPTS):
        fleet = await stage.fleet()
        key = stage.key()
        herd = fleet.stampede(
            key,
            seconds=stage.sizes.interrupted_seconds,
            callers=stage.sizes.callers,
            patience=patience,
        )
        computing = await fleet.first_computation(key, patience=stage.sizes.patience)
        await asyncio.sleep(min(_UNTIL_ALL_WAIT, stage.sizes.interrupted_seconds / 2))
        at = await interrupt(computing)
        outcome = await herd
        if not any(line.at < at and line.by == computing.number for line in outcome.ended):
            return outcome, computing, at
    raise PeerFailed(f"the computation was always over before {what}")
