"""Functions: a table of what each does now, sorted and searched on the server; and the switch of their modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.texts import parse_seconds
from stampede_guard.ops.console.screen import Action, Asked, ConsoleScreen, Parameter
from stampede_guard.ops.fleet.wording import counted
from stampede_guard.stores.fleet.sums import FunctionSums
from stampede_guard.stores.switch import EVERYTHING, LONGEST_TITLE, WATCH_TITLE, Switch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stampede_guard.ops.console.fleet import Fleet
    from stampede_guard.ops.fleet.snapshot import Snapshot

__all__ = ["MODE", "MODES", "MOST_ROWS", "SCREEN", "in_order", "mode_in", "row_of"]

MODES = ("on", "shadow", "bypass", "off", "default")
COLUMNS = (
    "name", "calls", "hit_rate", "computations", "collapsed", "compute_p50", "compute_p99", "wait_p99", "failed",
    "mode", "saved_per_hour",
)  # fmt: skip
HOUR = 3600.0
MOST_ROWS = 200
"""In one page, in its order; a search finds the others."""


def row_of(title: str, seen: Snapshot, switches: Mapping[str, Switch]) -> dict[str, Any]:
    """One function: rates per second, durations in seconds. `saved_per_hour`: seconds of the source, per hour.

    `mode`: in which its processes run it, as they say; empty if none has said it. `switch`: of the fleet.
    """
    sums = seen.functions.get(title) or FunctionSums()
    per_second = 1.0 / seen.seconds if seen.seconds else 0.0
    saved = sums.saved_seconds
    return {
        "name": title,
        "calls": sums.calls * per_second,
        "hit_rate": sums.hit_rate,
        "computations": sums.computations * per_second,
        "collapsed": sums.collapsed * per_second,
        "compute_p50": sums.took_quantile(0.5),
        "compute_p99": sums.took_quantile(0.99),
        "wait_p99": sums.waited_quantile(0.99),
        "failed": sums.failed,
        "fallbacks": sums.fallbacks,
        "takeovers": sums.takeovers,
        "timeouts": sums.timeouts,
        "mode": seen.mode_of(title),
        "switch": mode_in(title, switches),
        "saved_per_hour": None if saved is None else saved * per_second * HOUR,
    }


def mode_in(title: str, switches: Mapping[str, Switch]) -> str:
    """The fleet's switch for this function, or for everything; empty if each process decides."""
    switch = switches.get(title) or switches.get(EVERYTHING)
    return "" if switch is None else str(switch)


def in_order(rows: list[dict[str, Any]], column: str, *, down: bool) -> list[dict[str, Any]]:
    """Rows that are equal in this column stay in the order of their names. What is not known comes last."""
    by_name = sorted(rows, key=lambda row: str(row["name"]))
    known = [row for row in by_name if row[column] is not None]
    return sorted(known, key=lambda row: row[column], reverse=down) + [
        row for row in by_name if row[column] is None
    ]


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    seen = await fleet.now()
    switches = await (await fleet.reached()).steps.switches(fleet.namespace)
    wanted = asked["q"].casefold()
    rows = [
        row_of(title, seen, switches)
        for title in seen.functions.keys() | seen.modes.keys()
        if wanted in title.casefold()
    ]
    return {
        "seconds": seen.seconds,
        "processes": seen.processes,
        "functions": in_order(rows, asked["sort"], down=asked["order"] == "down")[:MOST_ROWS],
        "left_out": max(0, len(rows) - MOST_ROWS),
        "known": len(seen.functions.keys() | seen.modes.keys()),
        "summed": seen.left_out,
        "switches": {
            title: {"mode": one.mode, "sample": one.sample, "left": one.left}
            for title, one in sorted(switches.items())
            if title != WATCH_TITLE
        },
        "asked": dict(asked),
    }


async def switch_mode(fleet: Fleet, asked: Asked) -> str:
    """As `stampede-guard mode` does."""
    title, to = asked["function"], asked["to"]
    if not title or title == WATCH_TITLE:
        raise Misuse("name a function, or * for all of them")
    if not to:
        raise Misuse(f"to must be one of {', '.join(MODES)}")
    lasting = parse_seconds(asked["for"]) if asked["for"] and asked["for"] != "until changed" else None
    mode: Any = to
    switch = None if to == "default" else Switch(mode, None, lasting)
    told = await (await fleet.reached()).steps.switch(fleet.namespace, title, switch)
    whose = "every function" if title == EVERYTHING else title
    what = "has its own mode again" if switch is None else f"is in mode {switch}"
    ends = f" for {asked['for']}" if switch is not None and lasting is not None else ""
    return f"{whose} {what}{ends}; {counted(told, 'connected session was', 'connected sessions were')} told"


MODE = Action(
    "mode",
    "Switch the mode of a function, or of all, in the whole fleet.",
    switch_mode,
    (
        Parameter("function", "Its name, or * for all.", longest=LONGEST_TITLE),
        Parameter("to", "The mode; default removes the switch.", choices=MODES),
        Parameter("for", "How long: 90s, 30m, 2h, 1d; empty: until it is changed.", longest=20),
    ),
)

SCREEN = ConsoleScreen(
    "functions",
    "Functions",
    "What each function does now.",
    data,
    (
        Parameter("q", "Only functions whose name contains this.", longest=LONGEST_TITLE),
        Parameter("sort", "The column.", default="calls", choices=COLUMNS),
        Parameter("order", "Its order.", default="down", choices=("down", "up")),
    ),
    (MODE,),
)
