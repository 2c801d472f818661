"""Keys: the entries of the namespace, found by function, state and tag; one of them in all its parts."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from stampede_guard.errors import Misuse
from stampede_guard.ops.cli.known import of_function
from stampede_guard.ops.cli.names import complete, holder_text, is_tag, state_of
from stampede_guard.ops.console.fleet import Fleet
from stampede_guard.ops.console.screen import Action, Asked, ConsoleScreen, Parameter
from stampede_guard.ops.fleet.dropping import dropped
from stampede_guard.ops.fleet.searching import STATES, Wanted, explained, name_behind, search
from stampede_guard.ops.fleet.wording import counted
from stampede_guard.stores.fleet.stream import hashed

if TYPE_CHECKING:
    from stampede_guard.stores.console.view import EntryLease, EntryView

__all__ = ["SCREEN"]

MOST_KNOWN = 10_000
"""Hashes whose names this process remembers. It searches for those that another process has listed."""
MOST_DROPPED = 10_000
AT_ONCE = 100
PATIENCE = 5.0
"""Seconds for the search of a function's entries."""

_HASH = re.compile(r"#[0-9a-f]{16}")
_KNOWN: WeakKeyDictionary[Fleet, OrderedDict[str, str]] = WeakKeyDictionary()


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    servers = (await fleet.reached()).servers
    servers.unreached.clear()
    told: dict[str, Any] = {
        "asked": dict(asked),
        "states": STATES,
        "shows_names": fleet.shows_names,
        "entries": [],
        "following": "",
        "looked": 0,
        "one": None,
    }
    if not fleet.shows_names:
        _check_hidden(asked["entry"], asked["tag"])
    if asked["entry"]:
        (view,) = await servers.look([await _named(fleet, asked["entry"], asked["cursor"])])
        told["one"] = _row(fleet, view) | _details(fleet, view)
    else:
        tag = await _tag(fleet, asked["tag"]) if asked["tag"] else ""
        wanted = Wanted(asked["function"], asked["state"], tag)
        page = await search(servers, fleet.namespace, wanted, cursor=asked["cursor"])
        told |= {
            "entries": [_row(fleet, view) for view in page.views],
            "following": page.following,
            "looked": page.looked,
        }
    return told | {"unreached": sorted(servers.unreached)}


def _check_hidden(*given: str) -> None:
    """Names are refused: the page would say which exist, and somebody could try one after the other."""
    if any(one and not _HASH.fullmatch(one) for one in given):
        raise Misuse("names of entries are hidden here: give the hash of an entry or tag from this list")


# --- what is shown --------------------------------------------------------------------------------


def _row(fleet: Fleet, view: EntryView) -> dict[str, Any]:
    value, failure = view.value, view.failure
    named, tag = explained(view.name, fleet.namespace), is_tag(view.name, fleet.namespace)
    title = "" if named is None or tag else named.title
    return {
        "entry": (shown := _shown(fleet, view.name)),
        "label": shown.removeprefix(f"{fleet.namespace}:").removeprefix(f"{title}:"),
        "function": title,
        "state": "tag" if tag else state_of(view),
        "fresh_left": value.fresh_left
        if value is not None
        else failure.left
        if failure is not None
        else None,
        "stale_left": None if value is None else value.stale_left,
        "for_ever": value is not None and value.left is None,
        "size": None if value is None else value.size,
        "token": value.token if value is not None else failure.token if failure is not None else None,
        "lease": None if view.lease is None else _lease(view.lease),
        "waiters": view.waiters,
    }


def _lease(lease: EntryLease) -> dict[str, Any]:
    place = lease.holder
    return {
        "holder": holder_text(lease),
        "host": "" if place is None else place.host,
        "pid": None if place is None else place.pid,
        "since": lease.since,
        "left": lease.left,
        "alive": lease.alive,
        "token": lease.token,
    }


def _details(fleet: Fleet, view: EntryView) -> dict[str, Any]:
    """What `stampede-guard explain` and `show` say. Values of parameters only if names may be shown."""
    named, record = explained(view.name, fleet.namespace), view.record
    parts = () if named is None else named.parts
    return {
        "exists": view.exists,
        "kind": "" if named is None else named.kind,
        "digest": "" if named is None else named.digest,
        "complete": named is not None and named.complete,
        "parts": [
            {"label": part.label, "text": part.text if fleet.shows_names else None, "hashed": part.hashed}
            for part in parts
        ],
        "ttl": None if view.value is None else view.value.ttl,
        "stale_ttl": None if view.value is None else view.value.stale_ttl,
        "fence": None if record is None else record.fence,
        "fallbacks": len(view.slots),
    }


def _shown(fleet: Fleet, name: str) -> str:
    if fleet.shows_names:
        return name
    known, mark = _KNOWN.setdefault(fleet, OrderedDict()), hashed(name)
    known[mark] = name
    known.move_to_end(mark)
    if len(known) > MOST_KNOWN:
        known.popitem(last=False)
    return mark


# --- what may be done -----------------------------------------------------------------------------


async def _named(fleet: Fleet, given: str, cursor: str) -> str:
    """The complete name of an entry of this namespace, from its name or its hash. Raises `Misuse`.

    `cursor`: of the page that has listed the hash, perhaps in another process.
    """
    if given in (known := _KNOWN.get(fleet, OrderedDict())):
        return known[given]
    if not fleet.shows_names and _HASH.fullmatch(given):
        # Otherwise it would be the name of a tag that nothing has.
        servers = (await fleet.reached()).servers
        found = await name_behind(servers, fleet.namespace, given, cursor=cursor)
        if found is None:
            silent = "".join(f"; {one} did not answer" for one in sorted(servers.unreached))
            raise Misuse(f"no entry with this hash was found: load the list again{silent}")
        return found
    name = complete(given, fleet.namespace)
    if not name.startswith(f"{fleet.namespace}:"):
        raise Misuse(f"this console is for entries of namespace {fleet.namespace!r} only")
    return name


async def _tag(fleet: Fleet, given: str, cursor: str = "") -> str:
    """The complete name of a tag. An entry's is refused: who may drop a tag may not drop every entry by its name."""
    is_whole = given.startswith(("#", f"{fleet.namespace}:"))
    name = await _named(fleet, given if is_whole else f"#{given}", cursor)
    if not is_tag(name, fleet.namespace):
        raise Misuse("this is the name of an entry: tag= takes a tag, such as project:7")
    return name


async def _drop(fleet: Fleet, names: list[str]) -> int:
    steps = (await fleet.reached()).steps
    gone = 0
    for begin in range(0, len(names), AT_ONCE):
        gone += await dropped(steps, names[begin : begin + AT_ONCE], fleet.namespace)
    return gone


async def invalidate(fleet: Fleet, asked: Asked) -> str:
    name = await _named(fleet, asked["entry"], asked["cursor"])
    if is_tag(name, fleet.namespace):
        # It would drop all entries with the tag, which is another right.
        raise Misuse("this is the name of a tag: use the action invalidate_tag")
    await _drop(fleet, [name])
    return f"{_shown(fleet, name)} is invalidated. Computations under way cannot store their values."


async def invalidate_tag(fleet: Fleet, asked: Asked) -> str:
    await _drop(fleet, [await _tag(fleet, asked["tag"], asked["cursor"])])
    return "All entries with this tag are invalidated."


async def invalidate_function(fleet: Fleet, asked: Asked) -> str:
    """Entries that are computed for the first time have no value, so nothing of them is found."""
    servers, function = (await fleet.reached()).servers, asked["function"]
    servers.unreached.clear()
    try:
        async with asyncio.timeout(PATIENCE):
            names = await of_function(servers, fleet.namespace, function, MOST_DROPPED)
    except TimeoutError:
        raise Misuse(
            f"the search took more than {PATIENCE:g} s, and nothing is invalidated. Use "
            f"`stampede-guard invalidate --function {function}`"
        ) from None
    gone = await _drop(fleet, names[:MOST_DROPPED])
    more = " There are more: do it again." if len(names) > MOST_DROPPED else ""
    if silent := ", ".join(sorted(servers.unreached)):
        more += f" {silent} did not answer, so do it again: its entries are as before."
    return f"{counted(gone, f'entry of {function} is', f'entries of {function} are')} invalidated.{more}"


_ENTRY = Parameter("entry", "The complete name of an entry, or its hash from this list.", longest=8192)
_FUNCTION = Parameter("function", "A function's name, or a part of it.", longest=200)
_TAG = Parameter(
    "tag", "A tag, such as project:7. Entries that are encrypted do not show their tags.", longest=500
)
_CURSOR = Parameter(
    "cursor",
    "Where the page begins, as `following` of the last page says. With the hash of an entry: where its page began.",
    longest=30,
)

SCREEN = ConsoleScreen(
    "keys",
    "Keys",
    "The entries: fresh and stale for how long, size, holder, waiters. Each page looks at a part of them.",
    data,
    parameters=(
        _FUNCTION,
        Parameter("state", "Only entries in this state.", choices=STATES),
        _TAG,
        _CURSOR,
        _ENTRY,
    ),
    actions=(
        Action("invalidate", "Invalidate one entry.", invalidate, (_ENTRY, _CURSOR)),
        Action("invalidate_tag", "Invalidate all entries with a tag.", invalidate_tag, (_TAG, _CURSOR)),
        Action(
            "invalidate_function",
            "Invalidate all entries of a function, by its whole name or the last part of it.",
            invalidate_function,
            (_FUNCTION,),
        ),
    ),
    streams=False,
)
