"""The client of the caller that computes goes away."""

from __future__ import annotations

import asyncio
import time

from bench.peers.fleet import PeerFailed
from bench.peers.scenario import Column, Figures, Scenario, or_never, unserved
from bench.peers.stage import Stage

__all__ = ["CANCELLED"]

_UNTIL_ALL_WAIT = 0.2


_ATTEMPTS = 5


async def play(stage: Stage) -> Figures:
    """On a crowded machine the computation may be over before the cancellation: then it is played again."""
    for _ in range(_ATTEMPTS):
        figures = await _play(stage)
        if figures is not None:
            return figures
    raise PeerFailed("the computation was always over before its caller was cancelled")


async def _play(stage: Stage) -> Figures | None:
    fleet = await stage.fleet()
    key = stage.key()
    herd = fleet.stampede(
        key,
        seconds=stage.sizes.interrupted_seconds,
        callers=stage.sizes.callers,
        patience=stage.sizes.patience,
    )
    computing = await fleet.first_computation(key, patience=stage.sizes.patience)
    await asyncio.sleep(min(_UNTIL_ALL_WAIT, stage.sizes.interrupted_seconds / 2))
    await computing.tell("cancel")
    cancelled_at = time.monotonic()
    outcome = await herd
    if any(line.at < cancelled_at and line.worker == computing.number for line in outcome.ended):
        return None
    return {
        "computations": outcome.computations,
        "harmed": max(0, unserved(outcome) - 1),
        "seconds": or_never(outcome.seconds),
    }


CANCELLED = Scenario(
    name="cancelled",
    title="Caller cancelled",
    story="As cold, with a computation of 1 s; 0.2 s into the first the caller that began it is cancelled. Harmed are "
    "all others that do not get the value.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="harmed", title="others harmed", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
