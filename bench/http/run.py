"""Everything of one run. Nothing that a peer does ends it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence

from bench.herd.valkey import ValkeyServer
from bench.http.expiry import measure_expiries
from bench.http.hits import measure_hits
from bench.http.peers import BARE, NOTHING, PEERS
from bench.http.plan import Sizes
from bench.http.results import Results, Row
from bench.peers.fleet import ROOT

__all__ = ["measure"]


async def measure(
    peers: Sequence[str], sizes: Sizes, *, setting: str, step: Callable[[str], None]
) -> Results:
    """`step` is called with the name of each part. The bare apps are always among the peers, for comparison."""
    names = [name for name in PEERS if name in peers or name in (NOTHING, BARE)]
    results = Results(setting, [Row(name, PEERS[name].version, PEERS[name].missing()) for name in names])
    there = [row.name for row in results.rows if not row.not_run]
    with ValkeyServer() as server:
        step("hits in process")
        in_python = [name for name in there if PEERS[name].in_python]
        for name, found in (await _in_process(in_python, server.url, sizes)).items():
            for shape, seconds in found.items():
                results.row(name).rounds[f"cpu_{shape}"] = seconds
        step("hits")
        hits, failed = await measure_hits(there, server.url, sizes, step=lambda: step("hits"))
        for name, reason in failed.items():
            results.row(name).failed = reason
        for name, figures in hits.items():
            results.row(name).rounds |= {"rate": figures.rate, "p99": figures.p99, "cpu": figures.cpu}
        for name in there:
            step(f"expiries of {name}")
            if PEERS[name].caches and name not in failed:
                try:
                    row = results.row(name)
                    row.expiries, row.errors = await measure_expiries(name, server.url, sizes)
                except (RuntimeError, OSError, TimeoutError) as error:
                    results.row(name).failed = str(error) or type(error).__name__
    return results


async def _in_process(peers: Sequence[str], url: str, sizes: Sizes) -> dict[str, dict[str, list[float]]]:
    """In a process of its own, so that the harness is not on its loop. Raises `RuntimeError`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.http.inprocess", url, str(sizes.calls), str(sizes.rounds), *peers),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, words = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"hits in process could not be measured:\n{words.decode()[-2000:]}")
    found: dict[str, dict[str, list[float]]] = json.loads(out.decode().splitlines()[-1])
    return found
