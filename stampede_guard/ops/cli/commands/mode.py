"""`stampede-guard mode`: switches a function, or everything, for a whole running fleet."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stampede_guard.errors import Misuse, StoreError, StoreRefused, StoreUnavailable
from stampede_guard.ops.cli.known import Known, functions_known
from stampede_guard.ops.cli.options import Json, Namespace, Url
from stampede_guard.ops.cli.running import answer, run
from stampede_guard.ops.cli.saying import say
from stampede_guard.ops.cli.servers import console_at, session_at
from stampede_guard.ops.cli.texts import parse_seconds, seconds_text
from stampede_guard.stores.fleet.telling import tell_operator
from stampede_guard.stores.switch import EVERYTHING, LONGEST_TITLE, WATCH_TITLE, Switch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stampede_guard.stores.protocol import Session

__all__ = ["register"]


class To(StrEnum):
    """`default` removes the switch."""

    on = "on"
    shadow = "shadow"
    bypass = "bypass"
    off = "off"
    default = "default"


def register(app: typer.Typer) -> None:
    app.command()(mode)


def mode(
    name: Annotated[
        str | None, typer.Argument(help="A function's name (module.function, or its name=), or '*'.")
    ] = None,
    to: Annotated[To | None, typer.Argument(help="The mode; default removes the switch.")] = None,
    sample: Annotated[
        float | None,
        typer.Option("--sample", min=0.0, max=1.0, help="For on and shadow: the share of keys, from 0 to 1."),
    ] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", help="90s, 30m, 2h, 1d; without it, until changed.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Switch even if no entry belongs to a function with this name, or no process is connected.",
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = "default",
    as_json: Json = False,
) -> None:
    """Switch modes for all processes. A switch overrides their code and environment. Without arguments, list
    switches.

    Prints how many processes of the namespace are connected. If there is none, nothing is switched and the exit
    code is 1.
    """

    async def work() -> int:
        switch = None if name is None else _switch(name, to, sample, lasting)
        running = None if name is None else await _processes(url, namespace)
        async with session_at(url) as session:
            if name is not None:
                stands = name in await session.switches(namespace)
                # An existing switch may always be removed.
                if not force and not (stands and switch is None):
                    if running == 0:
                        raise StoreUnavailable(await _nobody(url, namespace))
                    if switch is not None and not stands and name != EVERYTHING:
                        _check(name, await functions_known(url, namespace, name), namespace)
                await session.switch(namespace, name, switch)
                await _record(session, namespace, name, switch)
                if not as_json:
                    say(f"{_said(name, switch)}: {_told(running, namespace)}")
            found = await session.switches(namespace)
            switches = {title: one for title, one in found.items() if title != WATCH_TITLE}
        if as_json:
            shown = {title: _as_json(switch) for title, switch in sorted(switches.items())}
            answer(shown if name is None else {"processes": running, "switches": shown})
        elif name is None:
            _show(switches, namespace)
        return 0

    run(work, url=url, as_json=as_json)


async def _processes(url: str | None, namespace: str) -> int | None:
    """How many processes of the namespace are connected. None if the server does not allow this client to ask."""
    try:
        async with console_at(url) as console:
            return (await console.processes()).get(namespace, 0)
    except StoreRefused:
        return None


async def _record(session: Session, namespace: str, name: str, switch: Switch | None) -> None:
    """For the marks on pages of the console. The switch is set, also if this fails."""
    try:
        await tell_operator(
            session,
            namespace,
            what="mode",
            function=name,
            user="stampede-guard mode",
            said=_said(name, switch),
        )
    except StoreError as error:
        say(f"stampede-guard: the fleet's stream lacks a record of it: {type(error).__name__}", err=True)


async def _nobody(url: str | None, namespace: str) -> str:
    async with console_at(url) as console:
        running = await console.processes()
    there = ", ".join(f"{name} ({count})" for name, count in sorted(running.items())) or "none"
    return (
        f"no process of namespace {namespace!r} is connected, so nothing was switched; those with "
        f"processes: {there}. Name one with --namespace or $STAMPEDE_GUARD_NAMESPACE. A process connects at its first "
        "cached call; with --force the switch is set for processes to come"
    )


def _told(running: int | None, namespace: str) -> str:
    if running is None:
        return "this user may not count processes (PUBSUB CHANNELS), so check `stampede-guard mode` again"
    if running == 1:
        return f"1 process of namespace {namespace!r} got the switch; if it missed it, it reads it within seconds"
    return (
        f"{running} processes of namespace {namespace!r} got the switch; "
        f"a process that missed it reads it within seconds"
    )


def _switch(name: str, to: To | None, sample: float | None, lasting: str | None) -> Switch | None:
    if not 0 < len(name) <= LONGEST_TITLE:
        raise Misuse(f"a function's name has 1 to {LONGEST_TITLE} characters, not {len(name)}")
    if to is None:
        raise Misuse(
            f"write the mode after {name!r}: on, shadow, bypass, off, or default to remove the switch"
        )
    if to is To.default:
        if sample is not None or lasting is not None:
            raise Misuse("--sample and --for do not go with default, which removes the switch")
        return None
    if sample is not None and to not in (To.on, To.shadow):
        raise Misuse(f"--sample goes with on and shadow, not with {to}")
    mode: Any = to.value
    return Switch(mode, sample, None if lasting is None else parse_seconds(lasting))


def _check(name: str, known: Known, namespace: str) -> None:
    """A switch for an unknown name has no effect. Raises `Misuse` if the name is certainly unknown."""
    if known.found:
        return
    whose = f"no entry in namespace {namespace!r} belongs to a function named {name!r}"
    if known.complete and known.titles:
        raise Misuse(
            f"{whose}; the nearest are: {', '.join(known.nearest(name))}. A function is known here by its entries: one "
            "that has stored nothing yet, or whose entries have all expired, is switched with --force"
        )
    why = "there are no entries" if known.complete else "not all entries could be checked"
    say(f"stampede-guard: {whose} ({why}): check the name", err=True)


def _said(name: str, switch: Switch | None) -> str:
    whose = "everything" if name == EVERYTHING else name
    if switch is None:
        return f"{whose} has its own mode again"
    ends = "" if switch.left is None else f" for {seconds_text(switch.left)}"
    return f"{whose} is in mode {switch}{ends}"


def _as_json(switch: Switch) -> dict[str, object]:
    return {"mode": switch.mode, "sample": switch.sample, "left": switch.left}


def _show(switches: Mapping[str, Switch], namespace: str) -> None:
    if not switches:
        say(f"No switches in namespace {namespace!r}: every function is in the mode that its process sets.")
    for title, switch in sorted(switches.items()):
        ends = "until it is changed" if switch.left is None else f"for {seconds_text(switch.left)} more"
        say(f"{title}  {switch}  {ends}")
