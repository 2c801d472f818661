"""`stampede-guard jobs list | history | run | pause | resume | check`: when jobs run, the results, and their health."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from stampede_guard.errors import Misuse
from stampede_guard.jobs.history.deadman import health_of
from stampede_guard.jobs.messages import Outcome
from stampede_guard.jobs.scheduler import Jobs
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases.owner import called
from stampede_guard.ops.cli.clients import LeasesUrl, leases_at, nobody
from stampede_guard.ops.cli.options import Json, Namespace
from stampede_guard.ops.cli.running import FAILED, answer, run, screen
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.texts import seconds_text

if TYPE_CHECKING:
    from stampede_guard.jobs.history.statistics import Statistics
    from stampede_guard.jobs.messages import JobView, RunView

__all__ = ["register"]

MOST = 1_000
Name = Annotated[str, typer.Argument(help="The job, without its namespace.")]


def register(app: typer.Typer) -> None:
    app.callback()(jobs)
    app.command("list")(listed)
    app.command("history")(history)
    app.command("run")(run_now)
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("check")(check)
    app.command("forget")(forget)


def jobs() -> None:
    """Jobs: their schedules, their history, and whether they are healthy."""


def listed(url: LeasesUrl = None, namespace: Namespace = "default", as_json: Json = False) -> None:
    """Every job that a worker ever registered."""

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            views = await Jobs(client).views()
        if as_json:
            answer({"jobs": [_as_json(view) for view in views]})
        elif not views:
            say(f"No jobs {_elsewhere(namespace)}.")
        else:
            _table(views, client.prefix)
        return 0

    run(work, url=url, as_json=as_json)


def history(
    name: Name,
    outcome: Annotated[
        list[str] | None, typer.Option("--outcome", help="Only runs with this outcome, such as failed.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST, help="The largest number of runs.")] = 20,
    url: LeasesUrl = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """The outcomes of a job's slots, newest first, and the statistics of its newest 1,000."""

    async def work() -> int:
        unknown = [word for word in outcome or () if word not in get_args(Outcome)]
        if unknown:
            raise Misuse(f"{unknown[0]!r} is not an outcome: write {', '.join(get_args(Outcome))}")
        wanted: Any = tuple(outcome or ())
        async with leases_at(url, namespace) as client:
            known = Jobs(client)
            if await known.view(name) is None:
                raise Misuse(nobody("no worker ever registered a job", name, namespace))
            runs = await known.history(name, limit=limit, outcomes=wanted)
            figures = await known.statistics(name)
        if as_json:
            answer({"runs": [_as_json(view) for view in runs], "statistics": figures})
        else:
            _runs(runs, figures)
        return 0

    run(work, url=url, as_json=as_json)


def run_now(
    program: Annotated[str, typer.Argument(help="Where the jobs are: module:name, as in 'shop.tasks:jobs'.")],
    name: Name,
    as_json: Json = False,
) -> None:
    """Run a job once, in this process, in addition to its schedule. The overlap rule is the same as for its slots."""

    async def work() -> int:
        known = _jobs_of(program)
        async with known.leases:
            try:
                view = await known.view(name)
                if view is not None and view.paused_at:
                    say(f"{name} is {_paused(view)}, and stays so: only this one run starts", err=True)
                ending = await known.run_now(name)
            finally:
                # An interrupt ends the run, and not only the wait for it.
                await known.stop(drain_timeout=0)
        if as_json:
            answer(ending)
        else:
            say(f"{name}: {ending.outcome}{f': {ending.error}' if ending.error else ''}")
        return 0 if ending.outcome == "completed" else FAILED

    run(work, as_json=as_json)


def pause(
    name: Name,
    by: Annotated[str, typer.Option("--by", help="Who pauses it, for the table.")] = "",
    url: LeasesUrl = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """Pause a job in the whole fleet: no slot starts until `resume`. A run that goes on is not interrupted."""

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            view = await Jobs(client).pause(name, by=by or f"an operator on {socket.gethostname()}")
        if as_json:
            answer(_as_json(view))
        else:
            running = f"; {len(view.running)} still running" if view.running else ""
            say(f"{name}: {_paused(view)}{running}")
        return 0

    run(work, url=url, as_json=as_json)


def resume(
    name: Name, url: LeasesUrl = None, namespace: Namespace = "default", as_json: Json = False
) -> None:
    """End the pause of a job. What came due meanwhile runs if its `misfire_grace` allows that, else it is missed."""

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            before = await Jobs(client).view(name)
            view = await Jobs(client).resume(name)
        if as_json:
            answer(_as_json(view))
        elif before is not None and before.paused_at:
            say(f"{name}: resumed (was paused by {before.paused_by})")
        else:
            say(f"{name}: was not paused")
        return 0

    run(work, url=url, as_json=as_json)


def check(url: LeasesUrl = None, namespace: Namespace = "default", as_json: Json = False) -> None:
    """The alert for missing runs: exit status 1 if a job had no success within twice its interval, or if there is
    no job.
    """

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            found = await Jobs(client).health()
            withheld = await client.withheld()
        late = [health for health in found if health.overdue]
        if as_json:
            answer({"jobs": found, "withheld": withheld} if found and withheld else {"jobs": found})
        else:
            if withheld is not None:
                # This is not a failure: it ends by itself, and a probe must not restart anything for it.
                say(f"nothing new starts for another {withheld.remaining:.0f} s: {withheld.why}", err=True)
            for health in late:
                last = f"; last error: {health.last_error}" if health.last_error else ""
                say(f"overdue: {health}{last}")
            if not found:
                # The namespace has a typing error, or a program never ran its lifespan. Both leave no other trace.
                say(f"no worker ever registered a job {_elsewhere(namespace)}")
            elif not late:
                say(f"{len(found)} {'job' if len(found) == 1 else 'jobs'}, none overdue")
        return 0 if found and not late else FAILED

    run(work, url=url, as_json=as_json)


def forget(
    name: Name, url: LeasesUrl = None, namespace: Namespace = "default", as_json: Json = False
) -> None:
    """Delete a job that no longer exists, with its history. A program that still has the job registers it again."""

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            done = await Jobs(client).forget(name)
        if not done:
            raise Misuse(nobody("no worker ever registered a job", name, namespace))
        if as_json:
            answer({"forgotten": name})
        else:
            say(f"{name}: forgotten, with its history")
        return 0

    run(work, url=url, as_json=as_json)


def _paused(view: JobView) -> str:
    return f"paused by {view.paused_by}, {_ago(view.paused_at, view.at)}"


def _elsewhere(namespace: str) -> str:
    return f"in namespace {namespace!r} (another one: --namespace, or $STAMPEDE_GUARD_NAMESPACE)"


def _jobs_of(program: str) -> Jobs:
    """Imports the program's module as a server does: the working directory comes first in the path."""
    module, _, path = program.partition(":")
    if not module or not path:
        raise Misuse(f"{program!r} names no jobs: write module:name, as in 'shop.tasks:jobs'")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ModuleNotFoundError, AttributeError) as error:
        raise Misuse(f"{program!r} cannot be found: {error}") from None
    except (Exception, SystemExit) as error:
        raise Misuse(f"{program!r} cannot be imported: {_cause(error)}") from error
    if not isinstance(found, Jobs):
        raise Misuse(f"{program!r} is a {type(found).__name__}: name a stampede_guard.jobs.Jobs")
    return found


def _cause(error: BaseException) -> str:
    """One line, with the place in the user's program."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"


def _as_json(view: JobView | RunView) -> dict[str, Any]:
    return {field: getattr(view, field) for field in view.__dataclass_fields__}


def _table(views: list[JobView], prefix: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("job", "schedule"):
        table.add_column(column, overflow="fold")
    for column in ("running", "last success", "last failure"):
        table.add_column(column, no_wrap=True)
    table.add_column("", overflow="fold")
    for view in views:
        health = health_of(view)
        told = Text("overdue", style="bold red") if health.overdue else Text("")
        if view.paused_at:
            told = Text(_paused(view), style="yellow")
        table.add_row(
            view.job.removeprefix(prefix),
            view.schedule,
            str(len(view.running) or ""),
            _ago(view.last_success_at, view.at),
            _ago(view.last_failure_at, view.at),
            told,
        )
    screen().print(table)


def _runs(runs: list[RunView], figures: Statistics) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("slot", "outcome", "took", "worker"):
        table.add_column(column, no_wrap=True)
    table.add_column("counted", overflow="fold")
    table.add_column("error", overflow="fold")
    for view in runs:
        took = (
            seconds_text(view.finished_at - view.started_at) if view.started_at and view.finished_at else ""
        )
        tried = f" (attempt {view.attempt})" if view.attempt > 1 else ""
        table.add_row(
            moment(view.slot).isoformat(timespec="seconds"),
            view.outcome + tried,
            took,
            called(view.owner) if view.owner else "",
            ", ".join(f"{name}={count}" for name, count in view.counters.items()),
            Text(view.error),
        )
    screen().print(table)
    screen().print(_figures(figures))


def _figures(figures: Statistics) -> str:
    missed = figures.missed_while_paused
    paused = f"{missed} {'slot' if missed == 1 else 'slots'} missed while paused"
    if figures.success_rate is None:
        return f"no run has ended; {paused}" if missed else "no run has ended"
    said = [f"{figures.success_rate:.1%} succeed"]
    if missed:
        said.append(paused)
    if figures.longest:
        said.append(
            f"mean {seconds_text(figures.mean)}, P95 {seconds_text(figures.p95)}, "
            f"longest {seconds_text(figures.longest)}"
        )
    if figures.suggested_time_limit is not None:
        said.append(f"a time_limit could be {figures.suggested_time_limit:g} s")
    return "; ".join(said)


def _ago(then: float, at: float) -> str:
    return f"{seconds_text(max(0.0, at - then))} ago" if then else "never"
