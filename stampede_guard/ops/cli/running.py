"""How a command runs and ends: errors as one sentence, exit codes 0, 1 and 2."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.ops.cli.saying import json_text, printable, say
from stampede_guard.ops.cli.secrets import without_secrets

if TYPE_CHECKING:
    from stampede_guard.stores.console.console import Console

__all__ = [
    "FAILED",
    "WRONG",
    "answer",
    "run",
    "screen",
    "unreached",
    "warn_of",
]

FAILED = 1
WRONG = 2
NARROW = 160
"""Columns of a table that is written to a file or a pipe."""


def run(
    work: Callable[[], Coroutine[Any, Any, int]], *, url: str | None = None, as_json: bool = False
) -> None:
    """Run a command and exit with its exit code."""
    try:
        code = asyncio.run(work())
    except Misuse as error:
        code = _fail(str(error), WRONG, url, as_json)
    except StoreError as error:
        code = _fail(str(error), FAILED, url, as_json)
    raise typer.Exit(code)


def _fail(text: str, code: int, url: str | None, as_json: bool) -> int:
    text = without_secrets(text, url)
    if as_json:
        typer.echo(json_text({"error": text}))
    else:
        say(f"stampede-guard: {text}", err=True)
    return code


def answer(found: Any) -> None:
    """Prints JSON: dataclasses become objects, and bytes are left out."""
    typer.echo(json_text(found, default=_plain, indent=2))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if field.name != "body"
        }
    return str(value)


def unreached(console: Console, *, url: str | None) -> list[dict[str, str]]:
    """The masters that did not answer, as JSON objects."""
    return [
        {"server": address, "error": without_secrets(str(error), url)}
        for address, error in sorted(console.unreached.items())
    ]


def warn_of(missing: list[dict[str, str]]) -> None:
    """Warns on standard error that the list is incomplete."""
    for one in missing:
        say(
            f"stampede-guard: {one['server']} did not answer, so its entries are missing here: {one['error']}",
            err=True,
        )


class Screen(RichConsole):
    """Shows text of other programs without its control characters. Those of rich are marked as such."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def screen() -> Screen:
    # The text contains names and errors of other programs: [brackets] in it are not styles, :colons: not pictures.
    width = None if sys.stdout.isatty() else NARROW
    return Screen(width=width, highlight=False, soft_wrap=False, markup=False, emoji=False)
