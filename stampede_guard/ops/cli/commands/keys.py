"""`stampede-guard keys`: the entries of a namespace and their state."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.ops.cli.known import told_namespaces
from stampede_guard.ops.cli.names import holder_text, is_tag, state_of
from stampede_guard.ops.cli.options import Json, Namespace, Url
from stampede_guard.ops.cli.running import FAILED, answer, run, screen, unreached, warn_of
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at
from stampede_guard.ops.cli.texts import bytes_text, seconds_text
from stampede_guard.ops.fleet.wording import counted
from stampede_guard.stores.console.view import EntryView
from stampede_guard.values.keys.explained import explain_name

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
    the server.

    If a master of a cluster does not answer, the entries of the others are listed, that master is named, and the
    exit code is 1.
    """

    async def work() -> int:
        views: list[EntryView] = []
        more = False
        async with console_at(url) as console:
            names: list[str] = []
            async for name in console.names(namespace, pattern):
                if len(names) == limit:
                    more = True
                    break
                names.append(name)
            rest = iter(sorted(names))
            while part := list(islice(rest, AT_ONCE)):
                views += [view for view in await _views(console, part) if view.exists]
            others = "" if names or as_json or pattern != "*" else await told_namespaces(console)
            missing = unreached(console, url=url)
        if as_json:
            entries = [_as_json(view, namespace) for view in views]
            answer({"entries": entries, "more": more} | ({"unreached": missing} if missing else {}))
        elif not views:
            say(_nothing(namespace, pattern))
            if others:
                say(others)
        else:
            _show(views, namespace)
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


def _show(views: list[EntryView], namespace: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("entry", overflow="fold")
    table.add_column("state", no_wrap=True)
    for column in ("fresh for", "then stale", "token", "bytes"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("lease", overflow="fold")
    table.add_column("waiting", justify="right", no_wrap=True)
    before = ""
    for view in views:
        function, part = _apart(view.name, namespace)
        if function != before:
            table.add_row(Text(function, style="bold"))
            before = function
        table.add_row(Text(f"  {part}"), *_cells(view, tag=is_tag(view.name, namespace)))
    screen().print(table)
    screen().print(_summary(views, namespace))


def _apart(name: str, namespace: str) -> tuple[str, str]:
    try:
        explained = explain_name(name, namespace=namespace)
    except Misuse:
        return name, ""
    if explained.kind == "tag":
        return f"{explained.namespace}: tags", name[len(explained.namespace) + 1 :]
    if explained.kind == "key":
        return explained.title, name[len(explained.namespace) + 1 :]
    if explained.kind == "url":
        return f"{explained.namespace}: http", name[len(explained.namespace) + 1 :]
    head, _, parts = name.partition(f":{explained.digest}:")
    return f"{head}:{explained.digest}", parts or "()"


def _cells(view: EntryView, *, tag: bool) -> list[str]:
    value, lease, failure = view.value, view.lease, view.failure
    if tag:
        return ["tag", seconds_text(value.left) if value is not None else "", "", "", "", "", ""]
    fresh, stale = _times(view)
    token = value.token if value is not None else failure.token if failure else ""
    held = ""
    if lease is not None:
        gone = ", owner gone" if lease.alive is False else ""
        who = f"{holder_text(lease)}, " if lease.holder else ""
        held = f"{who}{seconds_text(lease.since)}, {seconds_text(lease.left)} left{gone}"
    size = bytes_text(value.size) if value is not None else ""
    return [state_of(view), fresh, stale, str(token), size, held, str(view.waiters or "")]


def _times(view: EntryView) -> tuple[str, str]:
    """How long the value is fresh, and how long it is served stale afterwards. A failure has one time only."""
    value = view.value
    if value is None:
        return (seconds_text(view.failure.left) if view.failure else ""), ""
    fresh, stale = value.fresh_left, value.stale_left
    return seconds_text(fresh) if fresh != 0 else "", seconds_text(stale) if stale != 0 else ""


def _summary(found: list[EntryView], namespace: str) -> str:
    views = [view for view in found if not is_tag(view.name, namespace)]
    tags = f"; {len(found) - len(views)} tags" if len(views) < len(found) else ""
    counts = {
        state: sum(state_of(view) == state for view in views)
        for state in ("fresh", "stale", "failed", "uncacheable", "computing", "unknown")
    }
    told = [f"{count} {state}" for state, count in counts.items() if count]
    total = sum(view.value.size for view in views if view.value and state_of(view) != "uncacheable")
    return (
        f"{counted(len(views), 'entry', 'entries')}: {', '.join(told) or 'none with a value'}; "
        f"{bytes_text(total)} of values{tags}"
    )
