"""`stampede-guard leases list | show | release`: which process holds what, and requests to release it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stampede_guard.errors import Misuse
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases.messages import NotForced
from stampede_guard.leases.owner import called
from stampede_guard.ops.cli.clients import LeasesUrl, leases_at, nobody
from stampede_guard.ops.cli.options import Json, Namespace
from stampede_guard.ops.cli.running import FAILED, answer, run, screen
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.texts import seconds_text

if TYPE_CHECKING:
    from stampede_guard.leases.messages import Audit, LeaseView

__all__ = ["register"]

MOST = 1_000


def register(app: typer.Typer) -> None:
    app.callback()(leases)
    app.command("list")(listed)
    app.command("show")(show)
    app.command("release")(release)


def leases() -> None:
    """Leases, elections included: which process holds what, since when, and which processes wait."""


def listed(
    url: LeasesUrl = None,
    namespace: Namespace = "default",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MOST, help="The largest number of leases.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Every lease of the namespace that was ever held, held now or not."""

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            views = await client.views(limit=limit)
        if as_json:
            answer({"leases": [_as_json(view) for view in views]})
        elif not views:
            say(
                f"No leases in namespace {namespace!r} (another one: --namespace, or $STAMPEDE_GUARD_NAMESPACE)."
            )
        else:
            _table(views, client.prefix)
        return 0

    run(work, url=url, as_json=as_json)


def show(
    name: Annotated[str, typer.Argument(help="The lease, without its namespace.")],
    url: LeasesUrl = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """One lease: its holder, its waiters, and what operators did with it."""

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            view = await client.show(name)
            audits = [audit for audit in await client.audits(limit=MOST) if audit.name == client.full(name)]
        if view is None:
            raise Misuse(nobody("nobody ever had a lease", name, namespace))
        if as_json:
            answer({**_as_json(view), "audits": audits})
        else:
            _one(view, audits, name)
        return 0

    run(work, url=url, as_json=as_json)


def release(
    name: Annotated[str, typer.Argument(help="The lease, without its namespace.")],
    token: Annotated[
        int,
        typer.Option(
            "--token", min=1, help="The holder's token, as `show` prints it: only that holder is asked."
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            "--by", help="Who asks for the release; it is recorded. Default: user and host.", envvar="USER"
        ),
    ] = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Do not wait for the holder. It may continue for a while beside the next one!"
        ),
    ] = False,
    url: LeasesUrl = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """Ask the holder to release a lease. It gets a message, stops and releases. No other process gets the lease
    before that.
    """

    async def work() -> int:
        async with leases_at(url, namespace) as client:
            done = await client.force_release(name, token=token, by=by or _somebody(), now=now)
        if isinstance(done, NotForced):
            if as_json:
                answer({"released": False, "token": done.token or None})
            else:
                held = f"it is held under token {done.token}" if done.token else "nobody holds it"
                say(f"{name}: nothing was done, because {held}", err=True)
            return FAILED
        if as_json:
            answer({"released": True, "at_once": now, "remaining": done.remaining})
        elif now:
            say(f"{name}: free. Warning: until its holder notices, two processes may act as its holder.")
        else:
            left = seconds_text(done.remaining)
            say(
                f"{name}: its holder was asked to stop; the lease is free when it has stopped, in {left} at the latest"
            )
        return 0

    run(work, url=url, as_json=as_json)


def _somebody() -> str:
    """In a container, $USER may be missing, and the user's number may have no name."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def _as_json(view: LeaseView) -> dict[str, Any]:
    return {field: getattr(view, field) for field in view.__dataclass_fields__}


def _table(views: list[LeaseView], prefix: str) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("lease", overflow="fold")
    table.add_column("held by", overflow="fold")
    for column in ("for another", "token", "waiting"):
        table.add_column(column, justify="right", no_wrap=True)
    for view in views:
        holder = called(view.owner) if view.held and view.owner else "resting" if view.resting else ""
        left = seconds_text(view.remaining) if view.held or view.resting else ""
        if view.asked_to_leave:
            holder += f", asked to stop by {view.asked_to_leave}"
        table.add_row(
            view.name.removeprefix(prefix), holder, left, str(view.token), str(len(view.waiting) or "")
        )
    screen().print(table)
    held = sum(view.held for view in views)
    screen().print(f"{len(views)} leases, {held} held")


def _one(view: LeaseView, audits: list[Audit], name: str) -> None:
    said = [f"lease      {name}", f"token      {view.token}"]
    if view.held and view.owner is not None:
        said.append(f"held by    {called(view.owner)}, process {view.owner.process}")
        said.append(f"since      {_time(view.granted_at)}, renewed {_time(view.renewed_at)}")
        said.append(f"left       {seconds_text(view.remaining)}, if it is not renewed")
    else:
        said.append(f"held by    nobody{', resting' if view.resting else ''}")
    if view.asked_to_leave:
        said.append(f"asked      to stop by {view.asked_to_leave}")
    said += [f"waiting    {called(owner)}" for owner in view.waiting]
    for audit in audits:
        how = "released at once" if audit.now else "asked for release"
        said.append(f"operator   {audit.by} {how}, token {audit.token}, {_time(audit.at)}")
    say("\n".join(said))


def _time(seconds: float) -> str:
    return moment(int(seconds * 1000)).isoformat(timespec="seconds")
