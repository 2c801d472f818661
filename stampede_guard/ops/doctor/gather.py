"""Collects facts from the servers. It writes and removes one scratch entry, and changes nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import platform
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard import __version__
from stampede_guard.errors import StoreError, StoreUnavailable
from stampede_guard.ops.doctor.facts import Facts, ServerFacts
from stampede_guard.ops.doctor.trials import tried_rights

if TYPE_CHECKING:
    from stampede_guard.stores.console.console import Console
    from stampede_guard.stores.console.machine import Machine

__all__ = ["READS", "gather"]

READS = 50
CLOCK_PAUSE = 0.05
_SETTINGS = ("maxmemory-policy", "maxmemory", "save")


async def gather(console: Console, *, url: str, namespace: str, switches: Mapping[str, str] | None) -> Facts:
    """`url` is shown as it is, so pass it without a password. Raises nothing: a failure is also a fact."""
    servers = await asyncio.gather(*(_of_server(machine, console, namespace) for machine in console.masters))
    covered = None
    if console.slots is not None:
        covered = sum(console.slots.holder(slot) is not None for slot in range(16384))
    return Facts(
        kind=console.kind,
        url=url,
        tls=url.startswith("rediss"),
        namespace=namespace,
        versions=installed(),
        servers=tuple(servers),
        slots_covered=covered,
        replicas=console.replicas,
        switches=switches,
    )


def installed() -> dict[str, str]:
    versions = {"Python": platform.python_version(), "stampede_guard": __version__}
    for name in ("redis", "hiredis", "msgspec"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


async def _of_server(machine: Machine, console: Console, namespace: str) -> ServerFacts:
    errors: dict[str, str] = {}
    try:
        await machine.ask("PING")
    except StoreUnavailable as error:
        return ServerFacts(machine.address, reached=False, errors={"connect": str(error)})
    except StoreError as error:
        if "NOPERM" not in str(error).upper() and "NoPermission" not in str(error):
            return ServerFacts(machine.address, reached=False, errors={"connect": str(error)})
    try:
        return await _asked(machine, console, namespace, errors)
    except StoreUnavailable as error:
        return ServerFacts(machine.address, reached=False, errors={"connect": str(error)})


async def _asked(machine: Machine, console: Console, namespace: str, errors: dict[str, str]) -> ServerFacts:
    entry = _scratch(machine, console, namespace)
    user, denied = await tried_rights(machine, entry, errors)
    step, pause, offset = await _clock(machine, errors)
    return ServerFacts(
        machine.address,
        errors=errors,
        latencies=await _latencies(machine, entry, errors),
        info=await _info(machine, errors),
        config=await _config(machine, errors),
        user=user,
        denied=denied,
        numsub=await _numsub(machine, entry, errors),
        clock_step=step,
        clock_pause=pause,
        clock_offset=offset,
    )


def _scratch(machine: Machine, console: Console, namespace: str) -> str:
    """The name of an unused entry of the namespace that this server holds."""
    for number in range(100_000):
        name = f"{namespace}:=stampede-guard-doctor:{number}"
        if console.master_of(name) is machine:
            return name
    return f"{namespace}:=stampede-guard-doctor"


async def _latencies(machine: Machine, entry: str, errors: dict[str, str]) -> tuple[float, ...]:
    times = []
    for _ in range(READS):
        begin = time.perf_counter()
        try:
            await machine.ask("EVAL", "return redis.call('GET', KEYS[1])", 1, f"{{{entry}}}:v")
        except StoreUnavailable:
            raise
        except StoreError as error:
            errors["read"] = str(error)
            break
        times.append(time.perf_counter() - begin)
    # The first round trip also loads the script.
    return tuple(times[1:])


async def _info(machine: Machine, errors: dict[str, str]) -> dict[str, str] | None:
    text = await _or_none(machine, errors, "info", "INFO")
    if text is None:
        return None
    lines = text.decode("utf-8", "replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


async def _config(machine: Machine, errors: dict[str, str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for setting in _SETTINGS:
        pair = await _or_none(machine, errors, "config", "CONFIG", "GET", setting)
        if pair is None:
            return None
        found |= {name.decode(): value.decode() for name, value in zip(pair[::2], pair[1::2], strict=True)}
    return found


async def _numsub(machine: Machine, entry: str, errors: dict[str, str]) -> bool | None:
    script = "local seen = redis.pcall('PUBSUB', 'NUMSUB', ARGV[1]) return seen.err and 0 or 1"
    seen = await _or_none(
        machine, errors, "numsub", "EVAL", script, 1, f"{{{entry}}}:v", "stampede_guard:inbox:doctor"
    )
    return None if seen is None else seen == 1


async def _clock(machine: Machine, errors: dict[str, str]) -> tuple[float | None, float | None, float | None]:
    looks: list[tuple[float, float]] = []
    offset = 0.0
    for _ in range(2):
        begin = time.perf_counter()
        told = await _or_none(machine, errors, "clock", "TIME")
        if told is None:
            return None, None, None
        # The best estimate: the server answered halfway between sending and arrival.
        looks.append((int(told[0]) + int(told[1]) / 1e6, (begin + time.perf_counter()) / 2))
        offset = looks[-1][0] - (time.time() - (time.perf_counter() - looks[-1][1]))
        await asyncio.sleep(CLOCK_PAUSE)
    (first, begun), (second, ended) = looks
    return second - first, ended - begun, offset


async def _or_none(machine: Machine, errors: dict[str, str], what: str, *command: str | int) -> Any:
    try:
        return await machine.ask(*command)
    except StoreUnavailable:
        raise
    except StoreError as error:
        errors[what] = str(error)
        return None
