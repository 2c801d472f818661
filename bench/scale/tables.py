"""The figures as tables: `rich` for a terminal, Markdown for a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from bench.scale.costs import Costs
from bench.scale.fleet import FLEETS, load_of
from bench.scale.grid import Cell
from bench.scale.simulation import Expiry, Herd

__all__ = ["Sheet", "cost_sheet", "fleet_sheet", "grid_sheet", "herd_sheet"]


class Sheet:
    """A title, a head and rows of text."""

    def __init__(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.title = title
        self.head = head
        self.rows = rows

    def for_terminal(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for number, name in enumerate(self.head):
            table.add_column(name, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def as_markdown(self) -> str:
        lines = [self.head, ["---", *["---:"] * (len(self.head) - 1)], *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def grid_sheet(cells: Sequence[Cell]) -> Sheet:
    head = [
        "processes",
        "keys",
        "computations",
        "cold, ours",
        "cold, server",
        "hit, ours",
        "hit, server",
        "hits/s",
    ]
    rows = [
        [
            str(cell.processes),
            f"{cell.keys:,}" + (f" x {cell.rounds}" if cell.rounds > 1 else ""),
            f"{cell.cold.computations:,}" + ("" if cell.as_promised else " (!)"),
            f"{cell.cold.ours:.0f} us",
            f"{cell.cold.server:.0f} us",
            f"{cell.warm.ours:.1f} us",
            f"{cell.warm.server:.1f} us",
            f"{cell.warm.rate:,.0f}",
        ]
        for cell in cells
    ]
    return Sheet("Processor time per call, in all processes together", head, rows)


def cost_sheet(costs: Costs) -> Sheet:
    names = {
        "read": "a hit, alone in its tick",
        "read_key": "one more hit of that tick",
        "acquire": "a miss that is granted",
        "held": "a miss that waits, or looks again",
        "publish": "a value published",
        "told": "one more waiting process told",
        "renew": "a lease renewed",
        "invalidate": "an invalidation",
    }
    rows = [[names[name], f"{value:.1f} us"] for name, value in costs.to_json().items()]
    return Sheet("What a command costs the server's processor", ["command", "measured"], rows)


def herd_sheet(told: Sequence[tuple[Herd, Expiry]]) -> Sheet:
    head = [
        "processes",
        "computation",
        "computations",
        "commands",
        "server busy",
        "slowest answer",
        "all served after",
    ]
    rows = [
        [
            f"{herd.processes:,}",
            f"{herd.compute:g} s",
            f"{expiry.computations}" + ("" if expiry.computations == 1 else " (!)"),
            f"{expiry.total:,}",
            f"{expiry.busy * 1000:,.0f} ms",
            f"{expiry.longest_answer * 1000:,.0f} ms",
            f"{expiry.last_served * 1000:,.0f} ms",
        ]
        for herd, expiry in told
    ]
    return Sheet("One expiry of one key that every process wants at once (simulated)", head, rows)


def fleet_sheet(costs: Costs) -> Sheet:
    head = [
        "fleet",
        "calls/s",
        "keys",
        "computation",
        "commands/s",
        "hits",
        "misses",
        "servers",
        "connections each",
    ]
    rows = []
    for fleet in FLEETS:
        load = load_of(fleet, costs)
        rows.append(
            [
                f"{fleet.name}: {fleet.processes:,} processes",
                f"{fleet.processes * fleet.rate:,.0f}",
                f"{fleet.keys:,}",
                f"{fleet.compute:g} s",
                f"{load.commands:,.0f}",
                f"{load.hits:.1%}",
                f"{load.misses:.1%}",
                str(load.shards),
                f"{load.connections:,}",
            ]
        )
    return Sheet("How many servers a fleet needs, each busy half of its time at most", head, rows)
