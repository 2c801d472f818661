"""`python -m bench.peers`: the library beside its peers, in scenarios that each of them meets in production."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import redis
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.herd.story import machine
from bench.herd.valkey import ValkeyServer, product
from bench.peers.adapters import TABLE
from bench.peers.plan import FULL, QUICK, Sizes
from bench.peers.report import terminal_tables
from bench.peers.results import Results
from bench.peers.run import measure, measure_memory_hits
from bench.peers.scenarios import SCENARIOS

MEMORY = "memory"
LINE = 150


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, also if ours is behind (the table shows it). 1 if it could not be measured."""
    options = parse(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=LINE)  # a file has no width of its own
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.show is not None:
            results = Results.from_json(json.loads(options.show.read_text()))
        else:
            results = _measured(options, QUICK if options.quick else FULL, console)
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    except (RuntimeError, OSError, redis.RedisError) as error:
        console.print(f"[bold red]it could not be measured:[/] {error}", highlight=False)
        return 1
    for table in terminal_tables(results):
        console.print(table)
        console.print()
    console.print(f"{results.setting}; load average {results.load[0]:.1f} to {results.load[1]:.1f}")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results.to_json(), indent=2) + "\n")
        console.print(f"figures: {options.json}")
    return 0


def _measured(options: argparse.Namespace, sizes: Sizes, console: Console) -> Results:
    results = Results(_setting(sizes))
    load: list[float] = []
    scenarios = [name for name in options.scenario if name != MEMORY]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(options.only) * len(scenarios) + (MEMORY in options.scenario))

        def step(name: str, scenario: str) -> None:
            load.append(os.getloadavg()[0])
            progress.update(task, description=f"{name}, {scenario}", advance=1)

        results.rows = asyncio.run(measure(options.only, scenarios, sizes, step=step))
        if MEMORY in options.scenario:
            step("all", MEMORY)
            results.memory = asyncio.run(measure_memory_hits(sizes))
    results.load = (min(load), max(load))
    return results


def _setting(sizes: Sizes) -> str:
    with ValkeyServer() as server, server.client() as client:
        store = product(client.info("server"))
    return (
        f"{machine()}; {store} on loopback, redis-py {redis.__version__}; {sizes.processes} processes x "
        f"{sizes.callers} callers; the computation is a coroutine that sleeps {sizes.seconds:g} s "
        f"(long: {sizes.long_seconds:g} s)"
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=TABLE, default=TABLE, metavar="NAME", help=f"of {', '.join(TABLE)}"
    )
    scenarios = (*SCENARIOS, MEMORY)
    parser.add_argument(
        "--scenario", nargs="+", choices=scenarios, default=scenarios, metavar="NAME",
        help=f"of {', '.join(scenarios)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="fewer rounds, 3 s for long, 8 s of patience")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="measure nothing: show the figures of --json"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
