"""The computation fails, every time."""

from __future__ import annotations

from bench.peers.commands import CommandCount
from bench.peers.scenario import Column, Figures, Scenario, or_never
from bench.peers.stage import Stage

__all__ = ["RAISING"]


async def play(stage: Stage) -> Figures:
    await stage.fleet()
    with CommandCount(stage.server.url) as commands:
        outcome = await stage.stampede(stage.key(), seconds=stage.sizes.seconds, raises=True)
    return {
        "computations": outcome.computations,
        "commands": commands.total,
        "seconds": or_never(outcome.seconds),
    }


RAISING = Scenario(
    name="raises",
    title="Computation raises",
    story="As cold, but every computation raises after 0.45 s; the answer is the error.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="commands", title="Redis commands", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
