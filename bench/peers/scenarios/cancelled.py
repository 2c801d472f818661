"""The client of the caller that computes goes away."""

from __future__ import annotations

import asyncio

from bench.peers.scenario import Column, Figures, Scenario, or_never, unserved
from bench.peers.stage import Stage

__all__ = ["CANCELLED"]

_UNTIL_ALL_WAIT = 0.2


async def play(stage: Stage) -> Figures:
    fleet = await stage.fleet()
    key = stage.key()
    herd = fleet.stampede(
        key, seconds=stage.sizes.seconds, callers=stage.sizes.callers, patience=stage.sizes.patience
    )
    computing = await fleet.first_computation(key, patience=stage.sizes.patience)
    await asyncio.sleep(min(_UNTIL_ALL_WAIT, stage.sizes.seconds / 2))
    await computing.tell("cancel")
    outcome = await herd
    return {
        "computations": outcome.computations,
        "harmed": max(0, unserved(outcome) - 1),
        "seconds": or_never(outcome.seconds),
    }


CANCELLED = Scenario(
    name="cancelled",
    title="Caller cancelled",
    story="As cold; 0.2 s into the first computation the caller that began it is cancelled. Harmed are all others that "
    "do not get the value.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="harmed", title="others harmed", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
