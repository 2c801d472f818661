"""`stampede-guard dashboards`: the alert rules and the dashboard, as files of one's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.running import run
from stampede_guard.ops.cli.saying import say

__all__ = ["register"]

FILES = ("alerts.yml", "grafana.json")


def register(app: typer.Typer) -> None:
    app.command()(dashboards)


def dashboards(
    directory: Annotated[Path, typer.Argument(help="Where to write them; it is made if it is missing.")],
) -> None:
    """Write alert rules for Prometheus and a dashboard for Grafana, made for the metrics of `PrometheusHook`.

    Overwrites nothing: what is there may have been changed.
    """

    async def work() -> int:
        there = [name for name in FILES if (directory / name).exists()]
        if there:
            raise Misuse(
                f"{directory} has {', '.join(there)} already: name another directory, or delete them"
            )
        directory.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            text = (files("stampede_guard.ops") / "dashboards" / name).read_text("utf-8")
            (directory / name).write_text(text, "utf-8")
            say(directory / name)
        return 0

    run(work)
