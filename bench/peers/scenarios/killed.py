"""The process that computes is killed."""

from __future__ import annotations

import time

from bench.peers.fleet import Worker
from bench.peers.interrupted import interrupted
from bench.peers.scenario import NEVER, Column, Figures, Scenario, or_never, unserved
from bench.peers.stage import Stage

__all__ = ["KILLED"]


async def _kill(computing: Worker) -> float:
    at = time.monotonic()
    computing.kill()
    return at


async def play(stage: Stage) -> Figures:
    outcome, computing, killed_at = await interrupted(
        stage, _kill, patience=stage.sizes.patience_after_kill, what="its process was killed"
    )
    takeover = outcome.takeover(killed_at, computing.number)
    if takeover is None:
        needless = outcome.already_computing(killed_at, computing.number) > 0
        takeover = None if needless else NEVER
    return {
        "computations": outcome.computations,
        "takeover": takeover,
        "unserved": unserved(outcome),
        "seconds": or_never(outcome.seconds),
    }


KILLED = Scenario(
    name="killed",
    title="Holder killed",
    story="As cold, with a computation of 1 s. Its process is killed (SIGKILL) 0.2 s after its start. Only callers in "
    "the other processes count. If every process computes anyway, there is no takeover.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="takeover", title="takeover, s", unit="s"),
        Column(name="unserved", title="survivors without the value", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
