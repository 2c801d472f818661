"""`stampede-guard invalidate`: drops entries with the same step as `function.invalidate()`, never with DEL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.known import of_function, told_namespaces
from stampede_guard.ops.cli.names import complete
from stampede_guard.ops.cli.options import Json, Namespace, Url
from stampede_guard.ops.cli.running import FAILED, answer, run, unreached, warn_of
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at, session_at
from stampede_guard.ops.fleet.dropping import dropped

if TYPE_CHECKING:
    from stampede_guard.stores.console.console import Console

__all__ = ["register"]

MOST = 100_000
AT_ONCE = 100


def register(app: typer.Typer) -> None:
    app.command()(invalidate)


def invalidate(
    names: Annotated[
        list[str] | None, typer.Argument(help="Complete names, as `keys` shows them; '#project:7' is a tag.")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option("--match", help="All entries whose name after the namespace matches this glob."),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option("--function", help="All entries of this function: its name, or the last part of it."),
    ] = None,
    url: Url = None,
    namespace: Namespace = "default",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MOST, help="Refuse to drop more entries than this.")
    ] = 1000,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Drop entries. Computations under way cannot store their values any more, and waiters are woken at once.

    If a master of a cluster does not answer, --match drops the entries of the others, names that master, and exits
    with 1.
    """

    async def work() -> int:
        found, missing = await _found(url, namespace, names or [], match, function, limit)
        chosen = f"match {match!r}" if match is not None else f"belong to {function}"
        if not names and not yes and not _agreed(len(found), chosen, namespace, as_json):
            return FAILED
        done, failed = await _drop(url, found, namespace, show=not as_json)
        if as_json:
            answer({"invalidated": done, "failed": failed} | ({"unreached": missing} if missing else {}))
        else:
            say(f"{done} invalidated" + (f", {failed} failed: run the command again" if failed else ""))
        warn_of(missing)
        return FAILED if failed or missing else 0

    run(work, url=url, as_json=as_json)


async def _found(
    url: str | None, namespace: str, names: list[str], match: str | None, function: str | None, limit: int
) -> tuple[list[str], list[dict[str, str]]]:
    """The selected entries, and the masters that did not answer."""
    missing: list[dict[str, str]] = []
    if bool(names) + (match is not None) + (function is not None) != 1:
        raise Misuse("write the names of entries, or --function NAME, or --match PATTERN: one of them")
    if names:
        found = [complete(name, namespace) for name in names]
    else:
        found = []
        async with console_at(url) as console:
            if function is not None:
                found = await of_function(console, namespace, function, limit, hint=told_namespaces)
            else:
                found = await _matching(console, namespace, match or "*", limit)
            missing = unreached(console, url=url)
    if len(found) > limit:
        raise Misuse(
            f"more than {limit} entries match: narrow the pattern, or give a larger --limit (at most {MOST})"
        )
    return sorted(set(found)), missing


async def _matching(console: Console, namespace: str, match: str, limit: int) -> list[str]:
    found: list[str] = []
    async for name in console.names(namespace, match):
        found.append(name)
        if len(found) > limit:
            break
    return found


def _agreed(count: int, chosen: str, namespace: str, as_json: bool) -> bool:
    if count == 0:
        return True
    if as_json or not sys.stdin.isatty():
        raise Misuse(f"{count} entries of {namespace!r} {chosen}: add --yes to drop them without a question")
    return typer.confirm(f"Drop {count} entries of {namespace!r} that {chosen}?", err=True)


async def _drop(url: str | None, names: list[str], namespace: str, *, show: bool) -> tuple[int, int]:
    from rich.console import Console as Screen
    from rich.progress import Progress

    done = failed = 0
    quiet = not show or not sys.stderr.isatty()
    async with session_at(url) as session:
        with Progress(console=Screen(stderr=True), disable=quiet, transient=True) as progress:
            task = progress.add_task("invalidating", total=len(names))
            for begin in range(0, len(names), AT_ONCE):
                part = names[begin : begin + AT_ONCE]
                gone = await dropped(session, part, namespace)
                done, failed = done + gone, failed + len(part) - gone
                progress.update(task, advance=len(part))
    return done, failed
