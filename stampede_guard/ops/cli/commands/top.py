"""`stampede-guard top`: what the fleet does now, in a terminal."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.entrytable import FoundEntries
from stampede_guard.ops.cli.options import Json, Namespace, Url
from stampede_guard.ops.cli.running import answer, run, screen
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at, session_at
from stampede_guard.ops.cli.texts import seconds_text
from stampede_guard.ops.fleet.searching import STATES, KeyPage, Wanted, search
from stampede_guard.ops.fleet.viewer import Viewer
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import PROCESS_BEGAN
from stampede_guard.stores.fleet.sums import FunctionSums

if TYPE_CHECKING:
    from rich.console import Group

    from stampede_guard.ops.fleet.snapshot import Snapshot
    from stampede_guard.stores.console.console import Console
    from stampede_guard.stores.fleet.stream import Happening

__all__ = ["register"]

ROWS = 20
LINES = 12
SEARCHED_EVERY = 5
"""Pictures. A search for entries takes up to fifty SCANs."""
FIRST_LOOK = 2.5 * WATCHED.seconds
"""Seconds until the processes have read the switch and one complete slot has passed."""


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    names: Annotated[
        bool,
        typer.Option("--names", help="Show names of entries, which contain values of parameters."),
    ] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, max=3600, help="With --once and --json: seconds until the picture."),
    ] = FIRST_LOOK,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Also entries: their state, times, size, holder and waiters."),
    ] = False,
    function: Annotated[
        str, typer.Option("--function", help="With --keys: a part of a function's name.")
    ] = "",
    state: Annotated[
        str, typer.Option("--state", help=f"With --keys: {', '.join(STATES[:-1])} or {STATES[-1]}.")
    ] = "",
    tag: Annotated[str, typer.Option("--tag", help="With --keys: a tag, such as project:7.")] = "",
    url: Url = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """What the fleet does now: calls per second, hit rates, computations, hottest entries, faults, entries.

    Processes publish only while a viewer is open. So the first numbers come after some seconds. Ends with Ctrl-C.
    """

    async def work() -> int:
        wanted = _wanted(namespace, function, state, tag) if keys else None
        if wanted is None and (function or state or tag):
            raise Misuse("--function, --state and --tag select entries: add --keys")
        async with (
            console_at(url) as console,
            session_at(url) as session,
            Viewer(console, session, namespace, shows_names=names) as watch,
        ):
            if once or as_json:
                if not as_json:
                    say(f"waiting for the first numbers of the fleet ({wait:g} s)...", err=True)
                await asyncio.sleep(wait)
                seen = await watch.look()
                found = await _entries(console, namespace, wanted, names=names)
                if as_json:
                    answer(_as_json(seen, await watch.herd_lines()) | found.as_json())
                else:
                    screen().print(_picture(seen, await watch.happened(), namespace), *found.shown())
            else:
                await _follow(watch, console, namespace, wanted, names=names)
        return 0

    run(work, url=url, as_json=as_json)


def _wanted(namespace: str, function: str, state: str, tag: str) -> Wanted:
    if state and state not in STATES:
        raise Misuse(f"--state={state!r}: write {', '.join(STATES[:-1])} or {STATES[-1]}")
    return Wanted(function, state, f"{namespace}:#{tag}" if tag else "")


async def _follow(
    watch: Viewer, console: Console, namespace: str, wanted: Wanted | None, *, names: bool
) -> None:
    from rich.console import Group
    from rich.live import Live

    with Live(console=screen(), auto_refresh=False, screen=True) as live:
        found = await _entries(console, namespace, wanted, names=names)
        for turn in itertools.count(1):
            picture = _picture(await watch.look(), await watch.happened(), namespace)
            live.update(Group(picture, *found.shown()), refresh=True)
            await asyncio.sleep(1.0)
            if turn % SEARCHED_EVERY == 0:
                found = await _entries(console, namespace, wanted, names=names)


async def _entries(console: Console, namespace: str, wanted: Wanted | None, *, names: bool) -> FoundEntries:
    page = KeyPage([], "", 0) if wanted is None else await search(console, namespace, wanted)
    return FoundEntries(page, namespace, asked=wanted is not None, shows_names=names)


def _as_json(seen: Snapshot, happened: list[Happening]) -> dict[str, Any]:
    return {
        "seconds": seen.seconds,
        "processes": seen.processes,
        "in_flight": seen.in_flight,
        "l1_bytes": seen.l1_bytes,
        "away": seen.away,
        "refused": seen.refused,
        "full": seen.full,
        "troubles": seen.troubles,
        "left_out": seen.left_out,
        "functions": {
            title: _row_json(row) | {"mode": seen.mode_of(title)} for title, row in _rows(seen).items()
        },
        "hottest": [{"function": hot.function, "key": hot.key, "calls": hot.calls} for hot in seen.hottest],
        "happened": happened,
    }


def _rows(seen: Snapshot) -> dict[str, FunctionSums]:
    """Also functions in a mode in which calls are not counted."""
    return {title: FunctionSums() for title in sorted(seen.modes)} | dict(seen.functions)


def _row_json(row: FunctionSums) -> dict[str, Any]:
    return {
        "calls": row.calls,
        "hits": row.hits,
        "stale": row.stale,
        "misses": row.misses,
        "hit_rate": row.hit_rate,
        "computations": row.computations,
        "failed": row.failed,
        "collapsed": row.collapsed,
        "saved": row.saved,
        "saved_seconds": row.saved_seconds,
        "compute_p50": row.took_quantile(0.5),
        "compute_p99": row.took_quantile(0.99),
        "wait_p99": row.waited_quantile(0.99),
    }


def _picture(seen: Snapshot, happened: list[Happening], namespace: str) -> Group:
    from rich.console import Group
    from rich.text import Text

    if not seen.seconds:
        return Group(Text(f"{namespace}: waiting for the first numbers of the fleet"))
    if not seen.processes:
        return Group(
            Text(
                f"{namespace}: no process of this namespace publishes. A process begins at its first cached call; "
                "`stampede-guard mode '*' default` says how many are connected"
            )
        )
    parts: list[Any] = [_overview(seen, namespace)]
    parts += [Text(f"! {one}", style="bold red") for one in seen.troubles[:LINES]]
    sums = f"computed, collapsed, failed and saved time: sums of the last {seen.seconds:.0f} s"
    if seen.left_out:
        sums += f"; other functions: about {seen.left_out} more in a process, which names 200 in five seconds"
    parts += ["", _functions(seen), Text(sums, style="dim"), "", _hottest(seen)]
    faults = [one for one in happened if one.kind != PROCESS_BEGAN][-LINES:]
    if faults:
        parts += ["", *(Text(_line(one)) for one in faults)]
    return Group(*parts)


def _overview(seen: Snapshot, namespace: str) -> Any:
    from rich.text import Text

    total = seen.all
    rates = "   ".join(
        f"{name} {seen.rate(number):,.1f}/s"
        for name, number in (
            ("hits", total.hits),
            ("stale", total.stale),
            ("misses", total.misses),
            ("computed", total.computations),
            ("saved", total.saved),
        )
    )
    return Text(
        f"{namespace}   processes {seen.processes}   in flight {seen.in_flight}   {rates}   "
        f"(last {seen.seconds:.0f} s)",
        style="bold",
    )


def _functions(seen: Snapshot) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("function", overflow="fold")
    for column in (
        "calls/s",
        "hit rate",
        "computed",
        "collapsed",
        "P50",
        "P99",
        "wait P99",
        "failed",
        "saved time",
        "mode",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    busiest = sorted(_rows(seen).items(), key=lambda item: (-item[1].calls, item[0]))
    for title, row in busiest[:ROWS]:
        table.add_row(
            Text(title),
            f"{seen.rate(row.calls):,.1f}",
            "" if row.hit_rate is None else f"{row.hit_rate:.1%}",
            str(row.computations or ""),
            str(row.collapsed or ""),
            *(_seconds(row.took_quantile(share)) for share in (0.5, 0.99)),
            _seconds(row.waited_quantile(0.99)),
            str(row.failed or ""),
            _seconds(row.saved_seconds),
            seen.mode_of(title),
        )
    return table


def _hottest(seen: Snapshot) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("hottest entries", overflow="fold")
    table.add_column("function", overflow="fold")
    table.add_column("calls/s", justify="right", no_wrap=True)
    for hot in seen.hottest[:LINES]:
        table.add_row(Text(repr(hot.key)[1:-1]), Text(hot.function), f"{seen.rate(hot.calls):,.1f}")
    return table


def _line(one: Happening) -> str:
    at = datetime.datetime.fromtimestamp(one.at, datetime.UTC).strftime("%H:%M:%S")
    words = " ".join(repr(str(value))[1:-1] for value in one.detail.values())
    return f"{at}  {one.kind}  {one.function or ''}  {words}  {one.process}"


def _seconds(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number * 1000:.3g} ms" if number < 1 else seconds_text(number)
