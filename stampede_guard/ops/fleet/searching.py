"""The entries of a namespace in pages: a bounded amount of SCAN for each, and a cursor for the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from stampede_guard.core.tags import version_of, versions_in
from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.names import state_of
from stampede_guard.stores.fleet.stream import hashed
from stampede_guard.values.keys.explained import Explanation, explain_name

if TYPE_CHECKING:
    from stampede_guard.stores.console.console import Console
    from stampede_guard.stores.console.view import EntryView

__all__ = ["STATES", "KeyPage", "Wanted", "explained", "name_behind", "search"]

STATES = ("fresh", "stale", "failed", "uncacheable", "computing", "tag")
STEPS = 50
"""SCANs for one page, of 200 keys each."""
MOST_LOOKS = 1_000
"""Entries that are looked at for one page, and one more step."""
ROWS = 50
"""A page ends after this many, and the rest of a step."""
AT_ONCE = 200
MOST_TAGS = 32
TAG_BYTES = 2 + 16 * MOST_TAGS


class Wanted(NamedTuple):
    """`function`: a part of its name. `state`: as in `EntryView`, or `tag`. `tag`: the complete name of a tag."""

    function: str = ""
    state: str = ""
    tag: str = ""


class KeyPage(NamedTuple):
    """`following`: the cursor of the next page; empty at the end. `looked`: how many entries were looked at."""

    views: list[EntryView]
    following: str
    looked: int


async def search(console: Console, namespace: str, wanted: Wanted, *, cursor: str = "") -> KeyPage:
    """Raises `StoreError` if no master answers, and `Misuse` for a cursor of another shape."""
    # Masters that answer no step of this page are not asked again. One of an earlier page may be back.
    console.unreached.clear()
    version = b""
    if wanted.tag:
        (tag,) = await console.look([wanted.tag], body_bytes=TAG_BYTES)
        version = version_of(tag.value.body if tag.value is not None else None) or b""
        if not version:
            return KeyPage([], "", 0)
    found: dict[str, EntryView] = {}
    looked = 0
    for _ in range(STEPS):
        names, cursor = await console.page(namespace, cursor)
        parts = {name: part for name, part in names if _is_wanted(name, namespace, wanted)}
        looked += len(parts)
        for views in [await console.look(some, body_bytes=TAG_BYTES) for some in _in_turn(parts)]:
            found |= {view.name: view for view in views if _matches(view, parts[view.name], wanted, version)}
        if not cursor or len(found) >= ROWS or looked >= MOST_LOOKS:
            break
    return KeyPage(sorted(found.values(), key=lambda view: view.name), cursor, looked)


async def name_behind(console: Console, namespace: str, mark: str, *, cursor: str = "") -> str | None:
    """The name of the entry or tag with this hash. None if it is not found.

    Looks at the page that begins at `cursor`, and then at the first one: twice the SCANs of a page at most. No filter
    is needed, because only names are compared. Raises `StoreError` if no master answers, and `Misuse` for a cursor of
    another shape.
    """
    console.unreached.clear()
    for begin in dict.fromkeys((cursor, "")):
        following = begin
        for _ in range(STEPS):
            names, following = await console.page(namespace, following)
            for name, _part in names:
                if hashed(name) == mark:
                    return name
            if not following:
                break
    return None


def explained(name: str, namespace: str) -> Explanation | None:
    """None for a key that looks like an entry's and is none."""
    try:
        return explain_name(name, namespace=namespace)
    except Misuse:
        return None


def _is_wanted(name: str, namespace: str, wanted: Wanted) -> bool:
    told = explained(name, namespace)
    if told is None or (told.kind == "tag") != (wanted.state == "tag"):
        return False
    return not wanted.function or (told.kind != "tag" and wanted.function in told.title)


def _matches(view: EntryView, part: bytes, wanted: Wanted, version: bytes) -> bool:
    # An entry has several keys, and SCAN finds them in different steps. So one of them stands for the entry.
    first = b"v" if view.value is not None else b"e" if view.failure is not None else b"l"
    if part != first or not view.exists:
        return False
    if version and (view.value is None or version not in (versions_in(view.value.body) or ())):
        return False
    return wanted.state in ("", "tag") or state_of(view) == wanted.state


def _in_turn(names: Iterable[str]) -> Iterable[Sequence[str]]:
    rest = iter(names)
    while some := list(islice(rest, AT_ONCE)):
        yield some
