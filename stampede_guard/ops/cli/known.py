"""Which functions a namespace knows, as far as its entries show. A switch for any other name has no effect."""

from __future__ import annotations

import asyncio
import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.ops.cli.servers import console_at
from stampede_guard.values.keys.builder import readable_name
from stampede_guard.values.keys.explained import explain_name
from stampede_guard.values.keys.kinds import UNNAMED

__all__ = ["Known", "functions_known", "of_function", "told_namespaces"]

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stampede_guard.stores.console.console import Console

PATIENCE = 5.0
"""Seconds for the search: an operator in an emergency must not wait longer."""
MOST_ENTRIES = 100_000
MOST_NAMES = 10
HTTP = "http"
"""The name of everything that the HTTP middleware stores. Its entries are named by their URLs."""


@dataclass
class Known:
    """`complete`: all entries were checked. `found`: one of them belongs to the requested function."""

    titles: set[str] = field(default_factory=set)
    complete: bool = False
    found: bool = False

    def nearest(self, name: str) -> list[str]:
        near = difflib.get_close_matches(name, sorted(self.titles), n=MOST_NAMES, cutoff=0.5)
        return near or sorted(self.titles)[:MOST_NAMES]


async def functions_known(url: str | None, namespace: str, name: str) -> Known:
    """Searches until one entry is the function's. If the server refuses the search, no function is known."""
    known = Known(found=name == HTTP)
    try:
        async with asyncio.timeout(PATIENCE), console_at(url) as console:
            looked = 0
            async for entry in console.names(namespace):
                title = _title(entry, namespace)
                looked += 1
                if title is not None:
                    known.titles.add(title)
                    known.found = (
                        known.found or title == _as_in_keys(name) or _may_be_of(name, title, namespace)
                    )
                if known.found or looked == MOST_ENTRIES:
                    return known
            known.complete = not console.unreached
    except (StoreError, TimeoutError):
        pass
    return known


async def of_function(
    console: Console,
    namespace: str,
    name: str,
    most: int,
    *,
    hint: Callable[[Console], Awaitable[str]] | None = None,
) -> list[str]:
    """The entries of one function: its whole name, or the last part of it. More than `most` are not collected.

    Raises `Misuse` if no function has this name, or several have. `hint`: what the error says in addition if the
    namespace has no entries.
    """
    known = Known()
    by_title: dict[str, list[str]] = {}
    async for entry in console.names(namespace):
        title = _title(entry, namespace)
        if title is None:
            continue
        known.titles.add(title)
        if title == _as_in_keys(name) or title.rpartition(".")[2] == name:
            by_title.setdefault(title, []).append(entry)
            if len(by_title[title]) > most:
                break
    exact = by_title.get(_as_in_keys(name))
    if exact is not None:
        return exact
    if len(by_title) == 1:
        return by_title.popitem()[1]
    if by_title:
        raise Misuse(f"several functions are called {name!r}: write {' or '.join(sorted(by_title))}")
    if not known.titles:
        more = "" if hint is None else await hint(console)
        raise Misuse(f"no entries in namespace {namespace!r}. {more}".strip())
    raise Misuse(
        f"no entry in namespace {namespace!r} belongs to a function named {name!r}; the nearest are: "
        f"{', '.join(known.nearest(name))}"
    )


async def told_namespaces(console: Console) -> str:
    """A sentence that lists the namespaces on this server. Empty if the server does not allow the search."""
    try:
        found, complete = await console.namespaces()
    except StoreError:
        return ""
    if not found:
        return "The server has no entries of any namespace." if complete else ""
    return f"Namespaces with entries: {', '.join(found)}{'' if complete else ', and perhaps more'}."


def _title(entry: str, namespace: str) -> str | None:
    try:
        explained = explain_name(entry, namespace=namespace)
    except Misuse:
        return None
    return None if explained.kind == "tag" else explained.title


def _may_be_of(name: str, title: str, namespace: str) -> bool:
    """Entries of `get_or_compute(..., name="report")` do not contain that name, but it switches `shop:report`."""
    return title == f"{namespace}:{UNNAMED}" and name.startswith(f"{namespace}:")


def _as_in_keys(name: str) -> str:
    """A key keeps the end of a long name, and has no `<locals>` in the name of a local function."""
    return unquote(readable_name(name))
