"""Leases and elections: who holds what, since when and until when, who waits, and what happened before."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.jobs.history.records import JobRecords
from stampede_guard.leases.messages import LeaseView, NotForced
from stampede_guard.leases.owner import called
from stampede_guard.ops.console.screen import Action, Asked, ConsoleScreen, Parameter
from stampede_guard.ops.fleet.leases import lease_history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stampede_guard.leases.client import Leases
    from stampede_guard.ops.console.fleet import Fleet
    from stampede_guard.stores.fleet.stream import Happening

__all__ = ["SCREEN", "known_leases"]

MOST_READ = 1_000
MOST_SHOWN = 200
MOST_RUNS = 50
MOST_HAPPENED = 1_000
STATES = ("held", "waiting", "free")
NAME = Parameter("name", "The lease, without its namespace.", longest=200)
SEEN = Parameter("seen", "The token that was seen: only that holder is asked.", longest=18)


def known_leases(fleet: Fleet) -> Leases:
    """Raises `Misuse` if the console was made without leases."""
    if fleet.leases is None:
        raise Misuse(
            "this console knows no leases: write guard.console(leases=...), or stampede-guard console"
        )
    return fleet.leases


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    leases = known_leases(fleet)
    given = {"search": asked["search"], "state": asked["state"]}
    if asked["name"]:
        return {**given, "one": await _one(fleet, leases, asked["name"]), "leases": [], "found": 1, "all": 1}
    views = await leases.views(limit=MOST_READ)
    rows = [row for row in (_row(view, leases.prefix) for view in views) if _wanted(row, asked)]
    rows.sort(key=lambda row: (not row["held"], -row["waiting"], row["name"]))
    return {**given, "one": None, "leases": rows[:MOST_SHOWN], "found": len(rows), "all": len(views)}


def _wanted(row: dict[str, Any], asked: Asked) -> bool:
    state = asked["state"]
    fits = {"held": row["held"], "waiting": bool(row["waiting"]), "free": not row["held"]}
    return asked["search"].lower() in row["name"].lower() and (not state or fits[state])


def _row(view: LeaseView, prefix: str) -> dict[str, Any]:
    """`ends_in`: seconds until the lease ends unless its holder renews it."""
    return {
        "name": view.name.removeprefix(prefix),
        "held": view.held,
        "owner": called(view.owner) if view.held and view.owner is not None else "",
        "since": view.granted_at if view.held else 0.0,
        "renewed": view.renewed_at if view.held else 0.0,
        "ends_in": view.remaining if view.held or view.resting else 0.0,
        "resting": view.resting,
        "token": view.token,
        "waiting": len(view.waiting),
        "asked_to_leave": view.asked_to_leave,
    }


async def _one(fleet: Fleet, leases: Leases, name: str) -> dict[str, Any]:
    view, jobs = await leases.show(name), JobRecords(leases, None)
    if view is None:
        raise Misuse(f"nobody ever had a lease {name!r}")
    history = lease_history(
        leases.full(name),
        view=view,
        audits=await leases.audits(limit=MOST_READ),
        runs=await jobs.history(name, limit=MOST_RUNS),
        happened=await _happened(fleet),
    )
    return {
        **_row(view, leases.prefix),
        "process": view.owner.process if view.held and view.owner is not None else "",
        "queue": [called(owner) for owner in view.waiting],
        "is_job": await jobs.view(name) is not None,
        "history": [asdict(moment) for moment in history],
    }


async def _happened(fleet: Fleet) -> Sequence[Happening]:
    """Without the stream, the rest of the history is still worth a page."""
    try:
        return await fleet.happened(most=MOST_HAPPENED)
    except (StoreError, Misuse):
        return []


async def release(fleet: Fleet, asked: Asked) -> str:
    leases, name, now = known_leases(fleet), asked["name"], asked["at_once"] == "yes"
    if not (asked["seen"].isascii() and asked["seen"].isdigit()):
        raise Misuse("a lease is released with the token that was seen")
    by = asked.get("by") or "somebody at the console"
    done = await leases.force_release(name, token=int(asked["seen"]), by=by, now=now)
    if isinstance(done, NotForced):
        held = f"it is held under token {done.token}" if done.token else "nobody holds it"
        raise Misuse(f"nothing was done to {name!r}, because {held} now; you saw token {asked['seen']}")
    if now:
        return f"{name} is free. Until its holder notices, two processes may act as its holder."
    return (
        f"the holder of {name} was asked to stop; the lease is free in {done.remaining:.0f} s at the latest"
    )


RELEASE = Action(
    "release_lease",
    "Ask the holder of a lease to release it, or take the lease away.",
    release,
    (NAME, SEEN, Parameter("at_once", "Do not wait for the holder.", default="no", choices=("no", "yes"))),
)

SCREEN = ConsoleScreen(
    "leases",
    "Leases",
    "Leases and elections: who holds what, and who waits.",
    data,
    (
        NAME,
        Parameter("search", "A part of the name.", longest=200),
        Parameter("state", "Only these.", choices=STATES),
    ),
    (RELEASE,),
)
