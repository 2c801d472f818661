"""Jobs: when each runs next, how the last runs ended, and whether it is overdue or paused."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse
from stampede_guard.jobs.history.deadman import health_of
from stampede_guard.jobs.history.records import JobRecords
from stampede_guard.jobs.messages import Ending, JobView
from stampede_guard.jobs.reporting import log
from stampede_guard.ops.console.screen import Action, Asked, ConsoleScreen, Parameter
from stampede_guard.ops.console.screens.leases import known_leases
from stampede_guard.ops.fleet.jobs import JobLine, job_line

if TYPE_CHECKING:
    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["NAME", "SCREEN", "known_jobs"]

MOST_SHOWN = 100
LAST = 10
AT_ONCE = 10
"""Histories that are read at the same time."""
PATIENCE = 2.0
"""Seconds until the answer to a run by hand. The run goes on."""
_RUNNING: set[asyncio.Task[Ending]] = set()
STATES = ("overdue", "paused", "running")
NAME = Parameter("name", "The job, without its namespace.", longest=200)


def known_jobs(fleet: Fleet) -> JobRecords:
    """Raises `Misuse` if the console was made without leases, where the jobs are."""
    return fleet.jobs or JobRecords(known_leases(fleet), None)


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    jobs = known_jobs(fleet)
    views = await jobs.views()
    late = {view.job for view in views if health_of(view).overdue}
    wanted = [view for view in views if _wanted(view, asked, jobs.leases.prefix, late)]
    wanted.sort(key=lambda view: (view.job not in late, view.job))
    lines = await _lines(jobs, wanted[:MOST_SHOWN])
    here = set(fleet.jobs.names) if fleet.jobs is not None else set()
    return {
        "jobs": [{**asdict(line), "here": line.name in here} for line in lines],
        "found": len(wanted),
        "all": len(views),
        "overdue": len(late),
        "paused": sum(bool(view.paused_at) for view in views),
        "search": asked["search"],
        "state": asked["state"],
    }


def _wanted(view: JobView, asked: Asked, prefix: str, late: set[str]) -> bool:
    state = asked["state"]
    fits = {"overdue": view.job in late, "paused": bool(view.paused_at), "running": bool(view.running)}
    return asked["search"].lower() in view.job.removeprefix(prefix).lower() and (not state or fits[state])


async def _lines(jobs: JobRecords, views: list[JobView]) -> list[JobLine]:
    prefix = jobs.leases.prefix
    turns = asyncio.Semaphore(AT_ONCE)

    async def line(view: JobView) -> JobLine:
        async with turns:
            runs = await jobs.history(view.job.removeprefix(prefix), limit=LAST)
        return job_line(view, runs, prefix=prefix)

    return await asyncio.gather(*[line(view) for view in views])


async def pause(fleet: Fleet, asked: Asked) -> str:
    by = asked.get("by") or "somebody at the console"
    view = await known_jobs(fleet).pause(asked["name"], by=by)
    running = f"; {len(view.running)} still running" if view.running else ""
    return f"{asked['name']} is paused by {view.paused_by}{running}"


async def resume(fleet: Fleet, asked: Asked) -> str:
    jobs, name = known_jobs(fleet), asked["name"]
    before = await jobs.view(name)
    await jobs.resume(name)
    if before is None or not before.paused_at:
        return f"{name} was not paused"
    return f"{name} is resumed. It was paused by {before.paused_by}."


async def run_now(fleet: Fleet, asked: Asked) -> str:
    """Begins the run, and waits for a moment: a browser would not wait as long as a job may take."""
    name = asked["name"]
    if fleet.jobs is None or name not in fleet.jobs.names:
        raise Misuse(
            f"this process does not have the job {name!r}: mount the console in a worker, with "
            "guard.console(jobs=jobs), or use `stampede-guard jobs run`"
        )
    view = await fleet.jobs.view(name)
    paused = (
        f"; it is paused by {view.paused_by}, and stays so" if view is not None and view.paused_at else ""
    )
    running = asyncio.create_task(fleet.jobs.run_now(name), name=f"stampede_guard console runs {name}")
    _RUNNING.add(running)
    running.add_done_callback(_ended)
    done, _ = await asyncio.wait({running}, timeout=PATIENCE)
    if not done:
        return f"a run of {name} was begun in this process{paused}"
    ending = running.result()
    return f"{name} ran: {ending.outcome}{f': {ending.error}' if ending.error else ''}{paused}"


def _ended(task: asyncio.Task[Ending]) -> None:
    _RUNNING.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a run by hand did not begin: %s", error)


SCREEN = ConsoleScreen(
    "jobs",
    "Jobs",
    "When jobs run next, how they ended, and which are overdue.",
    data,
    (
        Parameter("search", "A part of the name.", longest=200),
        Parameter("state", "Only these.", choices=STATES),
    ),
    (
        Action("run_job", "Run a job now, in this process, in addition to its schedule.", run_now, (NAME,)),
        Action("pause_job", "Let no slot of a job start in the whole fleet.", pause, (NAME,)),
        Action("resume_job", "End the pause of a job.", resume, (NAME,)),
    ),
)
