"""`python -m bench.scale`: how the cost of a call grows with processes and keys, and where one server ends."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.herd.story import machine
from bench.herd.valkey import ValkeyServer
from bench.scale.costs import Costs, measure_costs
from bench.scale.grid import Cell, Walk, measure_grid
from bench.scale.plots import save_picture
from bench.scale.simulation import Expiry, Herd, simulate
from bench.scale.tables import Sheet, cost_sheet, fleet_sheet, grid_sheet, herd_sheet

LINE = 130
COMPUTE = (0.45, 8.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    processes: tuple[int, ...] = (1, 2, 4, 8, 16)
    keys: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000)
    commands: int = 10_000
    waiters: int = 200
    simulated: tuple[int, ...] = (8, 100, 1_000, 10_000, 30_000)
    slow_up_to: int = 10_000
    """Larger fleets are not simulated for the long computation: a million looks take minutes."""


FULL = Sizes()
QUICK = Sizes(
    processes=(1, 4),
    keys=(1, 100, 10_000),
    commands=3_000,
    simulated=(8, 100, 1_000, 10_000),
    slow_up_to=1_000,
)
TINY = Sizes(processes=(1, 2), keys=(1, 50), commands=100, waiters=3, simulated=(8, 100), slow_up_to=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    setting: str
    cells: list[Cell]
    costs: Costs
    herds: list[tuple[Herd, Expiry]]

    @property
    def as_promised(self) -> bool:
        """Every key computed once in every cell, and at every simulated expiry."""
        return all(cell.as_promised for cell in self.cells) and all(
            expiry.computations == 1 for _, expiry in self.herds
        )

    def sheets(self) -> list[Sheet]:
        return [
            grid_sheet(self.cells),
            cost_sheet(self.costs),
            herd_sheet(self.herds),
            fleet_sheet(self.costs),
        ]

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Figures:
        cells = [
            Cell(
                processes=cell["processes"],
                keys=cell["keys"],
                rounds=cell["rounds"],
                cold=Walk(**cell["cold"]),
                warm=Walk(**cell["warm"]),
            )
            for cell in content["grid"]
        ]
        herds = []
        for found in content["expiries"]:
            told = dict(found)
            herd = Herd(processes=told["processes"], compute=told.pop("compute"))
            herds.append((herd, Expiry(**told)))
        return cls(setting=content["setting"], cells=cells, costs=Costs(**content["costs"]), herds=herds)

    def to_json(self) -> str:
        herds = [
            {"processes": herd.processes, "compute": herd.compute, **asdict(expiry)}
            for herd, expiry in self.herds
        ]
        grid = [cell.to_json() for cell in self.cells]
        whole = {"setting": self.setting, "grid": grid, "costs": self.costs.to_json(), "expiries": herds}
        return json.dumps(whole, indent=2) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0; 1 if it could not be measured, or a key was computed more often than once."""
    options = _parse(arguments)
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    console = Console()
    if not console.is_terminal:
        console = Console(width=LINE)  # a file has no width of its own
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        figures = measure(sizes, console)
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    except (RuntimeError, OSError, redis.RedisError) as error:
        console.print(f"[bold red]it could not be measured:[/] {error}", highlight=False)
        return 1
    for sheet in figures.sheets():
        console.print(sheet.for_terminal())
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "scale.json").write_text(figures.to_json())
        page = "\n\n".join(f"{sheet.title}:\n\n{sheet.as_markdown()}" for sheet in figures.sheets())
        (options.output / "scale.md").write_text(f"{figures.setting}\n\n{page}\n")
        save_picture(figures.cells, figures.herds, options.output / "scale.png")
        console.print(f"figures, tables and picture: {options.output}")
    if not figures.as_promised:
        console.print("[bold red]some key was computed more often than once[/]")
        return 1
    return 0


def measure(sizes: Sizes, console: Console) -> Figures:
    herds = [
        Herd(processes=count, compute=compute)
        for compute in COMPUTE
        for count in sizes.simulated
        if compute < 1 or count <= sizes.slow_up_to
    ]
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with ValkeyServer() as server, Progress(*columns, console=console) as progress:
        grid = progress.add_task("processes x keys", total=len(sizes.processes) * len(sizes.keys))
        prices = progress.add_task("what a command costs", total=8)
        simulated = progress.add_task("simulated fleets", total=len(herds))
        cells = measure_grid(server.url, sizes.processes, sizes.keys, step=lambda: progress.advance(grid))
        costs = asyncio.run(
            measure_costs(
                server.url, count=sizes.commands, waiters=sizes.waiters, step=lambda: progress.advance(prices)
            )
        )
        told = []
        for herd in herds:
            told.append((herd, simulate(herd, costs)))
            progress.advance(simulated)
    return Figures(setting=machine(), cells=cells, costs=costs, herds=told)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller grid: under a minute")
    parser.add_argument(
        "--tiny", action="store_true", help="only to see that it works; the figures mean nothing"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="write figures, tables and a picture there"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
