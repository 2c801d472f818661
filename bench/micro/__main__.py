"""`python -m bench.micro`: the speed table, in ratios within one run; times alone say little about another machine."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import redis
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.herd.story import machine
from bench.herd.valkey import ValkeyServer, product
from bench.micro.away import measure_away
from bench.micro.herd import measure_herd
from bench.micro.hits import measure_hits
from bench.micro.memory import measure_memory
from bench.micro.near import measure_near
from bench.micro.plan import FULL, LOOPS, TINY, Loop, Sizes
from bench.micro.row import Row
from bench.micro.table import terminal_table

PARTS = ("hits", "near", "away", "herd", "memory")
LINE = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0, also if a target is missed (a busy machine is not a bug). 1 if it could not be measured."""
    options = _parse(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=LINE)  # a file has no width of its own
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ValkeyServer() as server:
            rows = measure(server.url, options.only, TINY if options.tiny else FULL, console)
            title = f"{machine()}; {_server(server.url)}"
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    except (RuntimeError, OSError, redis.RedisError) as error:
        console.print(f"[bold red]it could not be measured:[/] {error}", highlight=False)
        return 1
    console.print(terminal_table(rows, title=title))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(as_json(rows, title), indent=2) + "\n")
        console.print(f"figures: {options.json}")
    return 0


def measure(url: str, parts: Sequence[str], sizes: Sizes, console: Console) -> list[Row]:
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:

        def stepper(what: str, steps: int) -> Callable[[], None]:
            task = progress.add_task(what, total=steps)
            return lambda: progress.advance(task)

        if "hits" in parts:
            for loop in LOOPS:
                step = stepper(f"hits, {loop}", sizes.hits.repetitions + 1)
                rows += _on(loop, url, sizes, step)
        if "near" in parts:
            step = stepper("hits in the process", sizes.hits.repetitions + 1)
            rows += asyncio.run(measure_near(url, sizes.hits, step=step))
        if "away" in parts:
            step = stepper("store away", sizes.away.repetitions + 1)
            rows += asyncio.run(measure_away(sizes.away, step=step))
        if "herd" in parts:
            rows += measure_herd(
                url, sizes.herd, step=stepper("cold herds", sizes.herd.rounds + sizes.herd.counted)
            )
        if "memory" in parts:
            step = stepper(f"memory, {sizes.keys:,} keys", 1)
            rows.append(measure_memory(url, keys=sizes.keys))
            step()
    return rows


def _on(loop: Loop, url: str, sizes: Sizes, step: Callable[[], None]) -> list[Row]:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(measure_hits(url, sizes.hits, loop_name=loop, step=step))


def as_json(rows: Sequence[Row], setting: str) -> dict[str, Any]:
    return {"setting": setting, "rows": {row.name: row.to_json() for row in rows}}


def _server(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        return f"{product(client.info('server'))} on loopback"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="only to see that it works; the figures mean nothing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
