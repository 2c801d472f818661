"""`python -m bench.http`: the HTTP cache beside others, through uvicorn and in front of one application."""

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
import uvicorn
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.herd.story import machine
from bench.herd.valkey import ValkeyServer, product
from bench.http.peers import PEERS
from bench.http.plan import FULL, QUICK, Sizes
from bench.http.report import bar_lines, terminal_table
from bench.http.results import Results
from bench.http.run import measure

LINE = 170


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, also if a bar is missed (the table shows it). 1 if it could not be measured."""
    options = parse(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=LINE)  # a file has no width of its own
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.show is not None:
            results = Results.from_json(json.loads(options.show.read_text()))
        else:
            results = _measured(options.only, QUICK if options.quick else FULL, console)
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    except (RuntimeError, OSError, redis.RedisError) as error:
        console.print(f"[bold red]it could not be measured:[/] {error}", highlight=False)
        return 1
    console.print(terminal_table(results))
    for line in bar_lines(results):
        console.print(line, highlight=False)
    console.print(f"{results.setting}; load average {results.load[0]:.1f} to {results.load[1]:.1f}")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results.to_json(), indent=2) + "\n")
        console.print(f"figures: {options.json}")
    return 0


def _measured(peers: Sequence[str], sizes: Sizes, console: Console) -> Results:
    load: list[float] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        there = sum(not peer.missing() for name, peer in PEERS.items() if name in peers)
        task = progress.add_task("", total=2 + sizes.rounds + there)

        def step(what: str) -> None:
            load.append(os.getloadavg()[0])
            progress.update(task, description=what, advance=1)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            results = runner.run(measure(peers, sizes, setting=_setting(sizes), step=step))
    results.load = (min(load), max(load))
    return results


def _setting(sizes: Sizes) -> str:
    with ValkeyServer() as server, server.client() as client:
        store = product(client.info("server"))
    return (
        f"{machine()}; uvicorn {uvicorn.__version__}, {store} and all clients on loopback; hits: 221 bytes of "
        f"JSON, one worker, {sizes.connections} connections, {sizes.rounds} rounds; expiries: {sizes.workers} workers, "
        f"{sizes.workers * sizes.users} users that ask every {sizes.pause:g} s, an answer fresh for {sizes.ttl} s that "
        f"takes {sizes.compute:g} s"
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="NAME",
        help=f"of {', '.join(PEERS)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, one expiry")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="measure nothing: show the figures of --json"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
