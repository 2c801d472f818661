"""`stampede-guard keys`: the entries of a namespace and their state."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stampede_guard.errors import StoreError
from stampede_guard.ops.cli.entrytable import entry_table, summary_of
from stampede_guard.ops.cli.known import told_namespaces
from stampede_guard.ops.cli.largepieces import FoundPieces
from stampede_guard.ops.cli.names import is_tag, state_of
from stampede_guard.ops.cli.options import Json, Namespace, Url
from stampede_guard.ops.cli.running import FAILED, answer, run, screen, unreached, warn_of
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at
from stampede_guard.stores.console.view import EntryView

if TYPE_CHECKING:
    from stampede_guard.stores.console.console import Console

__all__ = ["register"]

MOST = 10_000
AT_ONCE = 200


def register(app: typer.Typer) -> None:
    app.command()(keys)


def keys(
    pattern: Annotated[
        str, typer.Argument(help="A glob for the name after the namespace, for example '*reports*'.")
    ] = "*",
    url: Url = None,
    namespace: Namespace = "default",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MOST, help="The largest number of entries.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """List entries: fresh or stale, for how long each, token, size, lease, waiters. Uses SCAN, which does not block
    the server. The pieces of a large response are one line below it.

    If a master of a cluster does not answer, the entries of the others are listed, that master is named, and the
    exit code is 1.
    """

    async def work() -> int:
        views: list[EntryView] = []
        more, found = False, FoundPieces(namespace)
        async with console_at(url) as console:
            names: list[str] = []
            async for name in console.names(namespace, pattern):
                if found.take(name):
                    continue
                if len(names) == limit:
                    more = True
                    break
                names.append(name)
            rest = iter(sorted(names))
            while part := list(islice(rest, AT_ONCE)):
                views += [view for view in await _views(console, part) if view.exists]
            pieces = await found.groups(lambda names, size: console.look(names, body_bytes=size), names)
            others = "" if names or pieces or as_json or pattern != "*" else await told_namespaces(console)
            missing = unreached(console, url=url)
        if as_json:
            entries = [_as_json(view, namespace) for view in views]
            told = {"pieces": [group.as_json() for group in pieces]} if pieces else {}
            answer(
                {"entries": entries, "more": more or found.more}
                | told
                | ({"unreached": missing} if missing else {})
            )
        elif not views and not pieces:
            say(_nothing(namespace, pattern))
            if others:
                say(others)
        else:
            screen().print(entry_table(views, namespace, pieces=pieces))
            screen().print(summary_of(views, namespace, pieces=pieces))
            if found.more:
                say("There are more pieces of large responses than a command looks at.")
            if more:
                say(f"There are more than {limit}: write a pattern, or a larger --limit.")
        warn_of(missing)
        return FAILED if missing else 0

    run(work, url=url, as_json=as_json)


async def _views(console: Console, names: list[str]) -> list[EntryView]:
    """Includes entries whose server returned only their names, as a master of a broken cluster does."""
    try:
        views = {view.name: view for view in await console.look(names)}
    except StoreError:
        views = {}
    return [views.get(name) or EntryView(name, seen=False) for name in names]


def _as_json(view: EntryView, namespace: str) -> dict[str, Any]:
    state = "tag" if is_tag(view.name, namespace) else state_of(view)
    fields = [name for name in view.__dataclass_fields__ if name != "seen"]
    told = {"state": state, **{name: getattr(view, name) for name in fields}}
    if view.value is not None:
        told |= {"fresh_left": view.value.fresh_left, "stale_left": view.value.stale_left}
    return told


def _nothing(namespace: str, pattern: str) -> str:
    if pattern != "*":
        covers = f"the pattern covers all text after {namespace}:"
        return f"No entries in namespace {namespace!r} match {pattern!r}: {covers}"
    return f"No entries in namespace {namespace!r} (another one: --namespace, or $STAMPEDE_GUARD_NAMESPACE)."
