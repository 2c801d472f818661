"""The query that takes 0.45 s takes much longer today, with unchanged settings."""

from __future__ import annotations

from bench.peers.commands import CommandCount
from bench.peers.scenario import Column, Figures, Scenario, or_never, unserved
from bench.peers.stage import Stage

__all__ = ["LONG"]


async def play(stage: Stage) -> Figures:
    await stage.fleet()
    with CommandCount(stage.server.url) as commands:
        outcome = await stage.stampede(stage.key(), seconds=stage.sizes.long_seconds)
    return {
        "computations": outcome.computations,
        "commands": commands.total,
        "unserved": unserved(outcome),
        "seconds": or_never(outcome.seconds),
    }


LONG = Scenario(
    name="long",
    title="8 s computation",
    story="As cold, but the computation takes 8 s instead of 0.45 s, with the same settings.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="commands", title="Redis commands", unit="count"),
        Column(name="unserved", title="callers without the value", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
