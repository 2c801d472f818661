"""The process that computes is killed."""

from __future__ import annotations

import asyncio
import time

from bench.peers.fleet import PeerFailed
from bench.peers.scenario import NEVER, Column, Figures, Scenario, or_never, unserved
from bench.peers.stage import Stage

__all__ = ["KILLED"]

_UNTIL_ALL_WAIT = 0.2


_ATTEMPTS = 5


async def play(stage: Stage) -> Figures:
    """On a crowded machine the computation may be over before the kill: then it is played again."""
    for _ in range(_ATTEMPTS):
        figures = await _play(stage)
        if figures is not None:
            return figures
    raise PeerFailed("the computation was always over before its process was killed")


async def _play(stage: Stage) -> Figures | None:
    fleet = await stage.fleet()
    key = stage.key()
    herd = fleet.stampede(
        key,
        seconds=stage.sizes.interrupted_seconds,
        callers=stage.sizes.callers,
        patience=stage.sizes.patience_after_kill,
    )
    computing = await fleet.first_computation(key, patience=stage.sizes.patience)
    await asyncio.sleep(min(_UNTIL_ALL_WAIT, stage.sizes.interrupted_seconds / 2))
    killed_at = time.monotonic()
    computing.kill()
    outcome = await herd
    if any(line.at < killed_at and line.worker == computing.number for line in outcome.ended):
        return None
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
    story="As cold, with a computation of 1 s; 0.2 s into the first its process is killed (SIGKILL). The survivors' "
    "callers count. Nobody takes over where every process computes anyway.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="takeover", title="takeover, s", unit="s"),
        Column(name="unserved", title="survivors without the value", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
