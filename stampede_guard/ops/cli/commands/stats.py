"""`stampede-guard stats`: what the whole fleet did, per function, over a window."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.known import told_namespaces
from stampede_guard.ops.cli.options import Json, Namespace, Url
from stampede_guard.ops.cli.running import FAILED, answer, run, screen, unreached, warn_of
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at
from stampede_guard.ops.cli.texts import parse_seconds, seconds_text
from stampede_guard.stores.fleet.sums import FunctionSums

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["register"]

LONGEST = 24 * 3600.0
TOTAL = "all"


def register(app: typer.Typer) -> None:
    app.command()(stats)


def stats(
    window: Annotated[
        str, typer.Option("--window", help="How far to look back, from 1m to 24h: 15m, 1h, 24h.")
    ] = "1h",
    url: Url = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """What the fleet did per function: calls, hit rate, computations, and those that were saved.

    Processes publish their sums every ten seconds, with `StampedeGuard(..., stats=True)` or $STAMPEDE_GUARD_STATS=1.
    """

    async def work() -> int:
        seconds = parse_seconds(window)
        if not 60 <= seconds <= LONGEST:
            raise Misuse(f"--window {window} is not between 1m and 24h: sums are kept per minute, for a day")
        async with console_at(url) as console:
            sums = await console.sums(namespace, seconds)
            others = "" if sums or as_json else await told_namespaces(console)
            missing = unreached(console, url=url)
        if as_json:
            found = {
                "window": seconds,
                "functions": {title: _as_json(sums[title]) for title in _busiest(sums)},
            }
            answer(found | ({"unreached": missing} if missing else {}))
        elif not sums:
            say(
                f"No sums of namespace {namespace!r} in the last {seconds_text(seconds)}. Processes publish them with "
                "StampedeGuard(..., stats=True) or $STAMPEDE_GUARD_STATS=1."
            )
            if others:
                say(others)
        else:
            _show(sums, seconds)
        warn_of(missing)
        return FAILED if missing else 0

    run(work, url=url, as_json=as_json)


def _busiest(sums: Mapping[str, FunctionSums]) -> list[str]:
    return sorted(sums, key=lambda title: (-sums[title].calls, title))


def _as_json(row: FunctionSums) -> dict[str, Any]:
    told: dict[str, Any] = asdict(row)
    told["seconds"] = told.pop("micros") / 1e6
    return told | {
        "calls": row.calls, "hit_rate": row.hit_rate, "saved": row.saved, "saved_seconds": row.saved_seconds
    }  # fmt: skip


def _show(sums: Mapping[str, FunctionSums], seconds: float) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("function", overflow="fold")
    for column in ("calls", "hit rate", "computed", "failed", "mean", "saved", "saved time"):
        table.add_column(column, justify="right", no_wrap=True)
    total = FunctionSums()
    saved = 0.0
    for title in _busiest(sums):
        row = sums[title]
        total += row
        saved += row.saved_seconds or 0.0
        told = "" if row.saved_seconds is None else seconds_text(row.saved_seconds)
        table.add_row(Text(title), *_cells(row), told)
    table.add_row(Text(TOTAL, style="bold"), *_cells(total), seconds_text(saved))
    screen().print(table)
    screen().print(f"in the last {seconds_text(seconds)}")


def _cells(row: FunctionSums) -> list[str]:
    mean = f"{row.micros / row.computations / 1000:.0f} ms" if row.computations else ""
    rate = "" if row.hit_rate is None else f"{row.hit_rate:.1%}"
    return [str(row.calls), rate, str(row.computations), str(row.failed or ""), mean, str(row.saved)]
