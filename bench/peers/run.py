"""Peer after peer, scenario after scenario. Nothing that a peer does ends the run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bench.herd.valkey import ValkeyServer
from bench.peers.adapters import ADAPTERS
from bench.peers.fleet import ROOT, PeerFailed
from bench.peers.plan import Sizes
from bench.peers.results import Row
from bench.peers.scenarios import SCENARIOS
from bench.peers.stage import Stage

__all__ = ["measure", "measure_memory_hits"]

LONGEST = 240.0
"""Seconds after which a scenario is abandoned, its own patience notwithstanding."""


async def measure(
    names: Sequence[str], scenarios: Sequence[str], sizes: Sizes, *, step: Callable[[str, str], None]
) -> list[Row]:
    """`step` is called with the peer and the scenario that begin."""
    rows = []
    for name in names:
        about = ADAPTERS[name].about
        row = Row(name, about.version, about.missing())
        rows.append(row)
        if row.not_run:
            for scenario in scenarios:
                step(name, scenario)
            continue
        async with Stage(name, sizes) as stage:
            for scenario in scenarios:
                step(name, scenario)
                await _play(stage, scenario, row)
    return rows


async def _play(stage: Stage, scenario: str, row: Row) -> None:
    try:
        async with asyncio.timeout(LONGEST):
            row.figures[scenario] = await SCENARIOS[scenario].play(stage)
    except (PeerFailed, TimeoutError, OSError) as error:
        row.failed[scenario] = f"failed: {str(error) or type(error).__name__}"
        await stage.renew()


async def measure_memory_hits(sizes: Sizes) -> dict[str, dict[str, Any]]:
    """In a process of its own, so that no peer's leftovers are on its loop. Raises `RuntimeError`."""
    with ValkeyServer() as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.peers.memory", server.url, str(sizes.memory_calls)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, words = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"hits in memory could not be measured:\n{words.decode()[-2000:]}")
    figures: dict[str, dict[str, Any]] = json.loads(out.decode().splitlines()[-1])
    return figures
