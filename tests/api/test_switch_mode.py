"""`guard.switch_mode`: a program switches its fleet, as an operator does with the command."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stampede_guard import Misuse, PolicyError, StampedeGuard
from stampede_guard.errors import StoreUnavailable
from stampede_guard.stores.console.console import Console
from tests.support.gate import until
from tests.support.guards import Guards
from tests.support.sessions import patient


def cached(guard: StampedeGuard, calls: list[int]) -> Any:
    @guard.locked_cache(ttl=60, name="shop.quality")
    async def quality() -> int:
        calls.append(1)
        return len(calls)

    return quality


async def test_all_processes_follow_a_switch_and_its_end(guards: Guards) -> None:
    calls: list[int] = []
    here, there = guards.guard(), guards.guard()
    mine, theirs = cached(here, calls), cached(there, calls)
    assert (await mine(), await theirs()) == (1, 1)
    assert await here.switch_mode("shop.quality", "off", lasting="30m") >= 1
    for guard in (here, there):
        await until(lambda guard=guard: guard.engine.modes.resolver.said.fleet.get("shop.quality"))
    assert (await mine(), await theirs()) == (2, 3)
    await there.switch_mode("shop.quality", None)
    for guard in (here, there):
        await until(lambda guard=guard: not guard.engine.modes.resolver.said.fleet)
    assert (await mine(), await theirs()) == (1, 1)


async def test_the_process_that_switches_follows_before_the_next_line_runs(guards: Guards) -> None:
    guard = guards.guard()
    mine = cached(guard, [])
    assert (await mine(), await mine()) == (1, 1)
    for number in (2, 3):
        await guard.switch_mode("shop.quality", "off", lasting="30m")
        assert await mine() == number
        await guard.switch_mode("shop.quality", None)
        assert await mine() == 1


async def test_a_process_that_stays_away_from_the_store_reads_no_switches(guards: Guards) -> None:
    guard = guards.guard()
    guard.mode = "bypass"
    mine = cached(guard, [])
    await mine()
    await guard.switch_mode("shop.quality", "off")
    assert not guard.engine.modes.resolver.said.fleet
    await guard.switch_mode("shop.quality", None)


async def test_a_switch_has_its_sample_and_its_time(guards: Guards) -> None:
    guard = guards.guard()
    for lasting in (1800, "30m", timedelta(minutes=30)):
        await guard.switch_mode("*", "on", sample=0.1, lasting=lasting)
        session = guard.engine.runtime().session
        (switch,) = (await session.switches(guards.namespace)).values()
        assert (switch.mode, switch.sample) == ("on", 0.1)
        assert switch.left is not None and 1790 < switch.left <= 1800
    await guard.switch_mode("*", None)


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("", "off"), {}, "1 to 200 characters"),
        (("f" * 201, "off"), {}, "1 to 200 characters"),
        (("*watched", "on"), {}, "for all"),
        ((7, "off"), {}, "the name of a function"),
        (("f", "fast"), {}, "mode"),
        (("f", None), {"lasting": "1h"}, "removes the switch"),
        (("f", None), {"sample": 0.5}, "removes the switch"),
        (("f", "off"), {"sample": 0.5}, "on and shadow"),
        (("f", "on"), {"sample": 1.5}, "share from 0 to 1"),
        (("f", "on"), {"sample": True}, "share from 0 to 1"),
        (("f", "on"), {"lasting": 0}, "1 s to 366 d"),
        (("f", "on"), {"lasting": "soon"}, "1 s to 366 d"),
        (("f", "on"), {"lasting": float("nan")}, "1 s to 366 d"),
    ],
)
async def test_a_mistake_switches_nothing(arguments: Any, options: Any, said: str) -> None:
    async with StampedeGuard.from_url("memory://", namespace="switches") as guard:
        with pytest.raises((Misuse, PolicyError), match=said):
            await guard.switch_mode(*arguments, **options)
        assert await guard.engine.runtime().session.switches("switches") == {}


async def test_a_tenant_has_the_switches_of_its_outer_guard() -> None:
    async with StampedeGuard.from_url("memory://") as guard:
        with pytest.raises(Misuse, match="outer guard"):
            await guard.within("ada").switch_mode("*", "off")


async def test_the_console_shows_who_switched(valkey_url: str, namespace: str) -> None:
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:
        await guard.switch_mode("shop.quality", "bypass", by="the release of today")
        async with await Console.open(guard.engine.store.servers) as servers:
            (line,) = await servers.happened(namespace)
    assert (line.kind, line.function) == ("operator", "shop.quality")
    assert line.detail == {
        "what": "mode",
        "user": "the release of today",
        "said": "shop.quality is in mode bypass",
    }


async def test_without_the_store_it_is_an_error(unused_tcp_port: int) -> None:
    async with StampedeGuard.from_url(f"redis://127.0.0.1:{unused_tcp_port}") as guard:
        with pytest.raises(StoreUnavailable):
            await guard.switch_mode("*", "off")
