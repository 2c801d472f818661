"""Entries as a table in a terminal: state, times, size, holder and waiters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.largepieces import PieceGroup
from stampede_guard.ops.cli.names import holder_text, is_tag, state_of
from stampede_guard.ops.cli.texts import bytes_text, seconds_text
from stampede_guard.ops.fleet.searching import KeyPage, explained
from stampede_guard.ops.fleet.wording import counted
from stampede_guard.stores.console.view import EntryView
from stampede_guard.stores.fleet.stream import hashed
from stampede_guard.values.keys.explained import explain_name

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["FoundEntries", "entry_table", "summary_of"]


@dataclass(frozen=True)
class FoundEntries:
    """A page of entries beside the numbers of a fleet. `asked`: whether the user wants to see entries."""

    page: KeyPage
    namespace: str
    asked: bool
    shows_names: bool

    def shown(self) -> list[Any]:
        if not self.asked:
            return []
        views = self.page.views
        more = " There are more: select some by --function, --state or --tag." if self.page.following else ""
        table = [entry_table(views, self.namespace, shows_names=self.shows_names)] if views else []
        return ["", *table, f"{summary_of(views, self.namespace)}.{more}"]

    def as_json(self) -> dict[str, Any]:
        if not self.asked:
            return {}
        return {"entries": [self._row(view) for view in self.page.views], "more": bool(self.page.following)}

    def _row(self, view: EntryView) -> dict[str, Any]:
        value, tag = view.value, is_tag(view.name, self.namespace)
        named = explained(view.name, self.namespace)
        return {
            "entry": view.name if self.shows_names else hashed(view.name),
            "function": "" if tag or named is None else named.title,
            "state": "tag" if tag else state_of(view),
            "fresh_left": None if value is None else value.fresh_left,
            "stale_left": None if value is None else value.stale_left,
            "size": None if value is None else value.size,
            "holder": None if view.lease is None else holder_text(view.lease),
            "waiters": view.waiters,
        }


def entry_table(
    views: Sequence[EntryView],
    namespace: str,
    *,
    shows_names: bool = True,
    pieces: Sequence[PieceGroup] = (),
) -> Table:
    """Below the name of its function, an entry has the rest of its own name, or a hash of it; and then its pieces."""
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
        shown = part if shows_names else hashed(view.name)
        table.add_row(Text(f"  {shown}"), *_cells(view, tag=is_tag(view.name, namespace)))
        for group in pieces:
            if group.of == view.name:
                table.add_row(*_cells_of_pieces(group, "    "))
    if others := [group for group in pieces if group.of is None]:
        table.add_row(Text(f"{namespace}: of responses dropped or not listed", style="bold"))
        for group in others:
            table.add_row(*_cells_of_pieces(group, "  "))
    return table


def _cells_of_pieces(group: PieceGroup, indent: str) -> list[str]:
    state = "computing" if group.written is not None else "fresh"
    left = "" if group.left is None else seconds_text(group.left)
    held = "" if group.written is None else _cells(group.written, tag=False)[5]
    name = f"{indent}{counted(len(group.views), 'piece', 'pieces')}"
    return [name, state, left, "", "", bytes_text(group.size), held, str(group.waiters or "")]


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


def summary_of(found: Sequence[EntryView], namespace: str, *, pieces: Sequence[PieceGroup] = ()) -> str:
    views = [view for view in found if not is_tag(view.name, namespace)]
    tags = f"; {len(found) - len(views)} tags" if len(views) < len(found) else ""
    counts = {
        state: sum(state_of(view) == state for view in views)
        for state in ("fresh", "stale", "failed", "uncacheable", "computing", "unknown")
    }
    told = [f"{count} {state}" for state, count in counts.items() if count]
    total = sum(view.value.size for view in views if view.value and state_of(view) != "uncacheable")
    number, size = sum(len(group.views) for group in pieces), sum(group.size for group in pieces)
    large = f"; {counted(number, 'piece', 'pieces')} of large responses, {bytes_text(size)}" if number else ""
    return (
        f"{counted(len(views), 'entry', 'entries')}: {', '.join(told) or 'none with a value'}; "
        f"{bytes_text(total)} of values{tags}{large}"
    )
