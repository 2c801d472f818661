"""Hits through uvicorn: all peers take turns, each with one worker, and every figure is beside the bare app's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.http.client import ask
from bench.http.plan import Sizes
from bench.http.settings import PATH
from bench.http.stage import Stage

__all__ = ["HitFigures", "measure_hits"]

_LONG = 36_000
"""Seconds: nothing expires."""
_WARM = 0.3


@dataclass(slots=True)
class HitFigures:
    """One figure per round: requests a second, the 99th percentile in seconds, CPU seconds per request."""

    rate: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


async def measure_hits(
    peers: Sequence[str], redis_url: str, sizes: Sizes, *, step: Callable[[], None]
) -> tuple[dict[str, HitFigures], dict[str, str]]:
    """The figures, and why there are none. `step` is called after each round."""
    failed: dict[str, str] = {}
    figures: dict[str, HitFigures] = {}
    async with contextlib.AsyncExitStack() as stack:
        stages: dict[str, Stage] = {}
        for name in peers:
            try:
                stage = await stack.enter_async_context(
                    Stage(name, redis_url, workers=1, ttl=_LONG, seconds=0.0)
                )
                await stage.fill(requests=3)
                await ask(stage.port, PATH, users=sizes.connections, seconds=_WARM)
            except (RuntimeError, OSError, TimeoutError) as error:
                failed[name] = str(error) or type(error).__name__
            else:
                stages[name] = stage
                figures[name] = HitFigures()
        for _ in range(sizes.rounds):
            for name, stage in stages.items():
                if name in failed:
                    continue
                try:
                    await _round(stage, sizes, figures[name])
                except (RuntimeError, OSError, TimeoutError) as error:
                    failed[name] = str(error) or type(error).__name__
                    del figures[name]
            step()
    return figures, failed


async def _round(stage: Stage, sizes: Sizes, found: HitFigures) -> None:
    before = stage.cpu_seconds()
    answers = await ask(stage.port, PATH, users=sizes.connections, seconds=sizes.round_seconds)
    found.rate.append(answers.rate)
    found.p99.append(answers.percentile(0.99))
    found.cpu.append((stage.cpu_seconds() - before) / len(answers.seconds))
