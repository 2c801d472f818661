"""Herds: the recent expiries of a sample of entries and those with a fault, and one of them as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stampede_guard.ops.console.screen import Asked, ConsoleScreen, Parameter
from stampede_guard.ops.fleet.herds import HerdStory
from stampede_guard.ops.fleet.lanes import drawn, panel_of
from stampede_guard.ops.fleet.wording import counted
from stampede_guard.stores.fleet.stream import NO_FAULTS

if TYPE_CHECKING:
    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["SCREEN"]

LINES = 2000
"""Lines of the fleet that one page reads, the newest."""
ROWS = 50
FAULTS = 30


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    happened, known = await fleet.herds(lines=LINES)
    chosen = next((herd for herd in known if herd.id == asked["id"]), None)
    shown = [
        herd
        for herd in known
        if asked["function"] in ("", herd.function)
        and (herd.faults or herd.error or asked["only"] != "faults")
    ]
    faults = [one for one in happened if one.kind not in NO_FAULTS and one.kind != "left out"][-FAULTS:]
    return {
        "herds": [_row(herd) for herd in shown[:ROWS]],
        "faults": [
            {
                "at": one.at,
                "kind": one.kind,
                "function": one.function,
                "process": one.process,
                "detail": one.detail,
            }
            for one in reversed(faults)
        ],
        "herd": None if chosen is None else _row(chosen) | _details(chosen),
        "figure": "" if chosen is None else drawn([panel_of(chosen)], told=_told(chosen), styled=False),
        "asked": dict(asked),
    }


def _row(herd: HerdStory) -> dict[str, Any]:
    return {
        "id": herd.id,
        "at": herd.began,
        "function": herd.function,
        "key": herd.key,
        "seconds": herd.seconds,
        "workers": len(herd.lanes) + herd.more_lanes,
        "callers": herd.callers,
        "computations": herd.computations,
        "collapsed": herd.collapsed,
        "saved_seconds": herd.saved_seconds,
        "stored": herd.stored,
        "error": herd.error,
        "outcome": herd.outcome,
        "faults": list(herd.faults),
    }


def _details(herd: HerdStory) -> dict[str, Any]:
    lanes = [
        {
            "process": lane.process,
            "callers": lane.callers,
            "spans": [
                {"kind": span.kind, "began": span.began, "ended": span.ended, "failed": span.failed}
                for span in lane.spans
            ],
        }
        for lane in herd.lanes
    ]
    marks = [
        {"at": mark.at, "process": lane.process, "kind": mark.kind, "text": mark.text}
        for lane in herd.lanes
        for mark in lane.marks
    ]
    return {"lanes": lanes, "marks": sorted(marks, key=lambda mark: float(mark["at"]))}


def _told(herd: HerdStory) -> str:
    return (
        f"One expiry in {counted(len(herd.lanes), 'worker')}: {counted(herd.callers, 'caller')}, "
        f"{counted(herd.computations, 'computation')}. "
        "The table below has the same marks."
    )


SCREEN = ConsoleScreen(
    "herds",
    "Herds",
    "Recent expiries with a lane per worker: who asked, who computed, who was woken when.",
    data,
    parameters=(
        Parameter("id", "A herd that is shown as a figure.", longest=60),
        Parameter("function", "Only herds of this function.", longest=200),
        Parameter("only", "`faults`: only herds with a fault.", choices=("faults",)),
    ),
)
