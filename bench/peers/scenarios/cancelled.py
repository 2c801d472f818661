"""The client of the caller that computes goes away."""

from __future__ import annotations

import time

from bench.peers.fleet import Worker
from bench.peers.interrupted import interrupted
from bench.peers.scenario import Column, Figures, Scenario, or_never, unserved
from bench.peers.stage import Stage

__all__ = ["CANCELLED"]


async def _cancel(computing: Worker) -> float:
    await computing.tell("cancel")
    return time.monotonic()


async def play(stage: Stage) -> Figures:
    outcome, _, _ = await interrupted(
        stage, _cancel, patience=stage.sizes.patience, what="its caller was cancelled"
    )
    return {
        "computations": outcome.computations,
        "harmed": max(0, unserved(outcome) - 1),
        "seconds": or_never(outcome.seconds),
    }


CANCELLED = Scenario(
    name="cancelled",
    title="Caller cancelled",
    story="As cold, with a computation of 1 s. The caller that began it is cancelled 0.2 s after its start. All other "
    "callers that do not get the value count as harmed.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="harmed", title="others harmed", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
