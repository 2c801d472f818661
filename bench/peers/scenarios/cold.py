"""Nothing is stored, and all callers call at once."""

from __future__ import annotations

import statistics

from bench.peers.commands import CommandCount
from bench.peers.outcome import median
from bench.peers.scenario import NEVER, Column, Figures, Scenario
from bench.peers.stage import Stage

__all__ = ["COLD"]


async def play(stage: Stage) -> Figures:
    """The most computations of any round; medians of the rounds for times; commands of an untimed round."""
    sizes = stage.sizes
    timed = [await stage.stampede(stage.key(), seconds=sizes.seconds) for _ in range(sizes.rounds)]
    with CommandCount(stage.server.url) as commands:
        counted = await stage.stampede(stage.key(), seconds=sizes.seconds)
    woken = [outcome.wake_ups() for outcome in timed]
    seconds = [NEVER if outcome.seconds is None else outcome.seconds for outcome in timed]
    return {
        "computations": max(outcome.computations for outcome in [*timed, counted]),
        "wake_up_median": _milliseconds(median([statistics.median(round_) for round_ in woken if round_])),
        "wake_up_max": _milliseconds(median([max(round_) for round_ in woken if round_])),
        "commands": commands.total,
        "seconds": statistics.median(seconds),
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


COLD = Scenario(
    name="cold",
    title="Cold",
    story="Nothing is stored; every caller of every process asks for the same key at the same moment.",
    columns=(
        Column(name="computations", title="computations", unit="count"),
        Column(name="wake_up_median", title="wake-up, median ms", unit="ms"),
        Column(name="wake_up_max", title="wake-up, max ms", unit="ms"),
        Column(name="commands", title="Redis commands", unit="count"),
        Column(name="seconds", title="all answered, s", unit="s"),
    ),
    play=play,
)
