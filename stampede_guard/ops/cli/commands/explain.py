"""`stampede-guard explain`: the parts of an entry's name."""

from __future__ import annotations

from typing import Annotated

import typer

from stampede_guard.ops.cli.options import Json
from stampede_guard.ops.cli.running import answer, run
from stampede_guard.ops.cli.saying import say
from stampede_guard.values.keys.explained import Explanation, explain_name

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(
    name: Annotated[str, typer.Argument(help="The entry's complete name, as `keys` shows it.")],
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="The guard's namespace, if it contains colons."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Split the name of an entry: namespace, function, version, parameters. Contacts no server."""

    async def work() -> int:
        explained = explain_name(name, namespace=namespace)
        if as_json:
            answer(explained)
        else:
            for line in _lines(explained):
                say(line)
        return 0

    run(work, as_json=as_json)


def _lines(explained: Explanation) -> list[str]:
    lines = [f"namespace  {explained.namespace}"]
    if explained.kind == "tag":
        hashed = "  (its start: the rest is hashed)" if not explained.complete else ""
        return [
            *lines,
            f"tag        {explained.title}{hashed}",
            "To invalidate its entries, invalidate this name.",
        ]
    if explained.kind == "key":
        lines.append(f"key        {explained.parts[0].text}  (get_or_compute or single)")
        lines.append(f"type       {explained.digest or 'none given'}")
        return lines
    if explained.kind == "url":
        lines.append(f"url        {explained.parts[0].text}  (the HTTP cache)")
        return lines
    lines.append(f"function   {explained.title}" + ("  (its end)" if len(explained.title) >= 64 else ""))
    lines.append(f"version    {explained.digest}  (digest of the whole name, version= and the result's type)")
    lines += [
        f"part       {part.label + ' = ' if part.label else ''}{part.text}"
        + ("  (hashed: too long to be shown)" if part.hashed else "")
        for part in explained.parts
    ]
    if not explained.parts:
        lines.append("part       none: the function has no parameters that are part of the key")
    if not explained.complete:
        lines.append("           all parts together were too long: the rest is hashed")
    lines.append(
        "For the values that were hashed, call the function's explain(...) with the arguments of the call."
    )
    return lines
