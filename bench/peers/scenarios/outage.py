"""Redis is gone (connections are refused), or stands still (connections are open and nothing answers)."""

from __future__ import annotations

import statistics

from bench.peers.outcome import Outcome
from bench.peers.scenario import Column, Figures, Scenario, or_never, unserved
from bench.peers.stage import Stage

__all__ = ["REDIS_FROZEN", "REDIS_KILLED"]

_COLUMNS = (
    Column(name="computations", title="computations", unit="count"),
    Column(name="unserved", title="callers without the value", unit="count"),
    Column(name="seconds", title="all answered, s", unit="s"),
)


async def killed(stage: Stage) -> Figures:
    """The worst counts and the median time of several outages, each with a fleet that has seen none."""
    outages = [await _killed(stage) for _ in range(stage.sizes.rounds)]
    return {
        "computations": max(outcome.computations for outcome in outages),
        "unserved": max(map(unserved, outages)),
        "seconds": statistics.median(or_never(outcome.seconds) for outcome in outages),
    }


async def frozen(stage: Stage) -> Figures:
    await stage.fleet()
    stage.server.pause()
    outcome = await _herd(stage)
    return {
        "computations": outcome.computations,
        "unserved": unserved(outcome),
        "seconds": or_never(outcome.seconds),
    }


async def _killed(stage: Stage) -> Outcome:
    await stage.fleet()
    stage.server.kill()
    return await _herd(stage)


async def _herd(stage: Stage) -> Outcome:
    try:
        return await stage.stampede(stage.key(), seconds=stage.sizes.seconds)
    finally:
        await stage.renew()


REDIS_KILLED = Scenario(
    name="redis-killed",
    title="Redis killed",
    story="The server is killed while processes are connected; then the herd asks for a key that no process has.",
    columns=_COLUMNS,
    play=killed,
)
REDIS_FROZEN = Scenario(
    name="redis-frozen",
    title="Redis frozen",
    story="The server is stopped (SIGSTOP) while processes are connecte"
    "d; then the herd asks for a key that no process has.",
    columns=_COLUMNS,
    play=frozen,
)
