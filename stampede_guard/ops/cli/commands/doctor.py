"""`stampede-guard doctor`: whether the store suits a guard, and what to fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from stampede_guard.errors import StoreError
from stampede_guard.ops.cli.options import Json, Namespace, Url, given
from stampede_guard.ops.cli.running import FAILED, answer, run, screen
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.secrets import shown, without_secrets
from stampede_guard.ops.cli.servers import console_at, session_at
from stampede_guard.ops.doctor import examine
from stampede_guard.ops.doctor.facts import Facts
from stampede_guard.ops.doctor.gather import gather, installed

if TYPE_CHECKING:
    from stampede_guard.ops.doctor import Diagnosis, Facts

__all__ = ["register"]

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "dim"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(url: Url = None, namespace: Namespace = "default", as_json: Json = False) -> None:
    """Check reachability, latency, rights, eviction, memory, clock, cluster and versions, and report what to fix."""

    async def work() -> int:
        findings = examine(await _facts(url, namespace))
        if as_json:
            answer(findings)
        else:
            _show(findings, url)
        return FAILED if any(finding.level == "fail" for finding in findings) else 0

    run(work, url=url, as_json=as_json)


async def _facts(url: str | None, namespace: str) -> Facts:
    where = shown(given(url))
    try:
        async with console_at(url) as console:
            return await gather(
                console, url=where, namespace=namespace, switches=await _switches(url, namespace)
            )
    except StoreError as error:
        tls = where.startswith("rediss")
        failure = without_secrets(str(error), url)
        return Facts("server", where, tls, namespace, installed(), failure=failure)


async def _switches(url: str | None, namespace: str) -> dict[str, str] | None:
    try:
        async with session_at(url) as session:
            found = await session.switches(namespace)
    except StoreError:
        return None
    return {title: str(switch) for title, switch in found.items()}


def _show(findings: list[Diagnosis], url: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("check", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("what is so, and what to do", overflow="fold")
    for finding in findings:
        where = f"{finding.server}: " if finding.server else ""
        text = Text(without_secrets(where + finding.seen, url))
        if finding.mend:
            text.append(f"\n-> {finding.mend}", style="bold")
        table.add_row(finding.check, Text(finding.level, style=_STYLES[finding.level]), text)
    screen().print(table)
    counts = {level: sum(finding.level == level for finding in findings) for level in _STYLES}
    say(", ".join(f"{count} {level}" for level, count in counts.items() if count))
