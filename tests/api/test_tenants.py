"""Tenants: entries apart, connections together; by a guard within a guard, or by a part of the key."""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar
from typing import Any

import pytest
import redis.asyncio

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.api.tenants import MOST_TENANTS
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon
from tests.support.guards import Guards
from tests.support.inside import plans_lock_of, tenants_of
from tests.support.sessions import LONG


def value(of: Any) -> Any:
    async def compute() -> Any:
        return of

    return compute


async def test_tenants_never_see_each_others_entries(guards: Guards) -> None:
    guard = guards.guard()
    acme, globex = guard.within("acme"), guard.within("globex")
    assert await acme.get_or_compute("k", value("of acme")) == "of acme"
    assert await globex.get_or_compute("k", value("of globex")) == "of globex"
    assert await guard.get_or_compute("k", value("of nobody")) == "of nobody"
    await acme.invalidate("k")
    assert await acme.get_or_compute("k", value("new")) == "new"
    assert await globex.get_or_compute("k", value("new")) == "of globex"


async def test_a_tenants_guard_elsewhere_is_one_of_the_same_namespace(guards: Guards) -> None:
    await guards.guard().within("acme").get_or_compute("k", value("stored"))
    assert await guards.guard().within("acme").get_or_compute("k", value("other")) == "stored"


async def test_all_tenants_together_have_the_connections_of_one_guard(own_valkey: Any) -> None:
    async with (
        Guards(own_valkey.url, "shop", deadline=LONG) as guards,
        redis.asyncio.Redis.from_url(own_valkey.url) as outside,
    ):
        guard = guards.guard()
        for number in range(50):
            await guard.within(f"tenant-{number}").get_or_compute("k", value(number))
        ours = await outside.client_list()
        assert len(ours) - 1 <= 3


async def test_one_tenants_herd_is_one_computation(guards: Guards) -> None:
    guard, gate = guards.guard(), Gate()
    calls = [asyncio.create_task(guard.within("acme").get_or_compute("k", gate.hold)) for _ in range(20)]
    await gate.arrival()
    gate.open()
    await soon(asyncio.gather(*calls))
    assert gate.entered == 1


async def test_a_decorator_and_a_block_are_a_tenants_too(guards: Guards) -> None:
    acme = guards.guard().within("acme")

    @acme.locked_cache(name="shop.quality")
    async def quality(project: int) -> int:
        return project

    assert await quality(7) == 7
    assert quality.key(7).startswith(f"{guards.namespace}:acme:shop.quality:")
    async with acme.single("k") as entry:
        assert entry.missing
        await entry.set(1)
    assert await acme.get_or_compute("k", value(2)) == 1


async def test_modes_are_those_of_the_guard_around(guards: Guards) -> None:
    guard = guards.guard()
    acme = guard.within("acme")
    guard.mode = "off"
    assert acme.mode == "off"
    assert [await acme.get_or_compute("k", value(n)) for n in (1, 2)] == [1, 2]
    with pytest.raises(Misuse, match="set the mode there"):
        acme.mode = "on"


async def test_closing_a_tenant_closes_nothing(guards: Guards) -> None:
    guard = guards.guard()
    async with guard.within("acme") as acme:
        await acme.get_or_compute("k", value(1))
    assert not guard.engine.runtime().closing
    await guard.aclose()
    assert await acme.get_or_compute("k", value(2)) == 1, "it connects anew, as the guard does"


def test_tenants_are_remembered_and_bounded() -> None:
    guard = StampedeGuard(MemoryStore(), namespace="shop")
    assert guard.within("acme") is guard.within("acme")
    for number in range(MOST_TENANTS + 5):
        guard.within(f"t{number}")
    assert len(tenants_of(guard)) == MOST_TENANTS


@pytest.mark.parametrize("tenant", ["", "a:b", "a b", "{a}", "*", "x" * 41, None, 7])
def test_what_cannot_be_a_tenant_is_refused_with_what_can(tenant: Any) -> None:
    with pytest.raises(Misuse, match="1 to 40 letters"):
        StampedeGuard(MemoryStore()).within(tenant)


def test_a_namespace_that_would_be_too_long_is_refused() -> None:
    with pytest.raises(Misuse, match="64 characters"):
        StampedeGuard(MemoryStore(), namespace="n" * 40).within("t" * 30)


tenant: ContextVar[str] = ContextVar("tenant")


def test_a_child_process_does_not_wait_for_a_tenants_lock_that_the_parent_held() -> None:
    tenant = StampedeGuard(MemoryStore(), namespace="shop").within("acme")
    with plans_lock_of(tenant):
        child = os.fork()
        if child == 0:
            os._exit(0 if plans_lock_of(tenant)._lock.acquire(timeout=60) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


async def test_a_tenant_in_a_context_variable_is_part_of_every_key(guards: Guards) -> None:
    @guards.guard().locked_cache(name="shop.quality", context=(tenant,))
    async def quality(project: int) -> str:
        return f"{tenant.get()}'s {project}"

    tenant.set("acme")
    assert await quality(7) == "acme's 7"
    assert "@tenant='acme'" in quality.key(7)
    tenant.set("globex")
    assert await quality(7) == "globex's 7"
    tenant.set("acme")
    assert await quality(7) == "acme's 7"
