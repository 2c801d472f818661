"""A scanner's random query strings: a flood of keys used once grows nothing and puts out nothing that is hot."""

from __future__ import annotations

import asyncio
import gc
import os
import random

import psutil
import pytest

from bench.herd.cluster import ValkeyCluster
from stampede_guard import StampedeGuard
from stampede_guard.api.keyed.plans import MOST_PLANS
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.stores.protocol import Session
from tests.support.gate import until
from tests.support.guards import Guards
from tests.support.inside import pending_of, plans_of
from tests.support.sessions import LONG

KEYS = int(os.environ.get("STAMPEDE_GUARD_FLOOD", "10000"))
AT_ONCE = 250
HOT = range(200)
MIB = 1024 * 1024
ROOM = {"l1_bytes": 1 * MIB, "l1_entries": 500, "last_value_bytes": 1 * MIB}


def rss() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


async def flood(guard: StampedeGuard, name: str) -> tuple[int, int]:
    """Hot keys, then random ones. Returns the process's growth in bytes over the second half, and computations."""
    runs = 0

    @guard.locked_cache(ttl=300, l1_ttl=300, name=name)
    async def page(query: str) -> str:
        nonlocal runs
        runs += 1
        return query * 20

    @guard.locked_cache(ttl=300, l1_ttl=300, name=f"{name} hot")
    async def front(number: int) -> str:
        return "x" * 100

    l1 = guard.engine.runtime().l1
    names = [guard.prefix + front.key(number).removeprefix(f"{guard.namespace}:") for number in HOT]
    await asyncio.gather(*map(front, HOT))
    # Each node of a cluster is listened to on its own; what was read before that is not kept.
    await until(lambda: all(map(guard.engine.runtime().session.hears_changes, names)))
    for _ in range(3):
        await asyncio.gather(*map(front, HOT))
    assert all(l1.find(name) is not NOTHING for name in names)
    chance, half = random.Random(3), 0
    for begin in range(0, KEYS, AT_ONCE):
        if begin >= KEYS // 2 and not half:
            half = rss()
        queries = [f"{chance.getrandbits(64):x}" for _ in range(AT_ONCE)]
        for _ in range(2 if begin % 1000 == 0 else 1):
            # Some come twice, so that the near store has something to put out.
            await asyncio.gather(*map(page, queries))
    assert all(l1.find(name) is not NOTHING for name in names), "hot values were put out"
    return rss() - half, runs


def check_bounds(guard: StampedeGuard, runtime: Runtime) -> None:
    assert runtime.l1.bytes <= ROOM["l1_bytes"] and len(runtime.l1) <= ROOM["l1_entries"]
    assert runtime.last.bytes <= ROOM["last_value_bytes"]
    assert (runtime.flights, runtime.fallbacks, runtime.abandoned) == ({}, {}, 0)
    assert len(pending_of(runtime)) == 0 and len(plans_of(guard)) <= MOST_PLANS
    assert all(not (batches._expected or batches._gatherings) for batches in runtime.batches.values())


def sizes(thing: object, depth: int = 3, seen: set[int] | None = None) -> dict[str, int]:
    """How many things each container within one of ours holds."""
    seen = set() if seen is None else seen
    if depth == 0 or id(thing) in seen or not type(thing).__module__.startswith("stampede_guard"):
        return {}
    seen.add(id(thing))
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = getattr(thing, "__dict__", {}) | {
        name: getattr(thing, name) for name in slots if hasattr(thing, name)
    }
    found: dict[str, int] = {}
    for name, value in fields.items():
        if hasattr(value, "__len__") and not isinstance(value, str | bytes):
            found[f"{type(thing).__name__}.{name}"] = len(value)
        values = value.values() if isinstance(value, dict) else [value]
        for inner in list(values)[:50]:
            found |= sizes(inner, depth - 1, seen)
    return found


BOUNDED = {
    "Runtime.l1", "Runtime.last", "L1._kept", "LastSeen._kept", "L1._fences",
    "Bounded.items", "Bounded._small", "Bounded._main", "Bounded._ghosts",
    "MemorySession._store", "MemoryStore._entries", "MemoryStore._room", "SlotMap._holders",
}  # fmt: skip


def check_session(session: Session) -> None:
    """Everything else that a session and its parts hold is as good as empty."""
    assert {name: size for name, size in sizes(session).items() if size > 50 and name not in BOUNDED} == {}


async def test_a_flood_of_keys_grows_no_process_with_a_store_in_memory() -> None:
    store = MemoryStore(max_bytes=4 * MIB)
    async with StampedeGuard(store, limits=Limits(**ROOM)) as guard:
        grown, runs = await flood(guard, "flood")
        runtime = guard.engine.runtime()
        check_bounds(guard, runtime)
        check_session(runtime.session)
        assert {n: s for n, s in sizes(runtime).items() if s > 50 and n not in BOUNDED} == {}
        assert runs >= KEYS and store._room.bytes <= 4 * MIB and len(store) == len(store._room) < 2500
        assert grown < 12 * MIB


@pytest.mark.parametrize("kind", ["valkey", "cluster"])
async def test_nor_one_with_a_server(request: pytest.FixtureRequest, kind: str, namespace: str) -> None:
    if kind == "cluster":
        cluster: ValkeyCluster = request.getfixturevalue("valkey_cluster")
        url = cluster.url
    else:
        url = request.getfixturevalue("valkey_url")
    # An outage is another test's matter: values near by are dropped then.
    async with Guards(url, namespace, deadline=LONG) as guards:
        guard = guards.guard(**ROOM)
        grown, runs = await flood(guard, "flood")
        runtime = guard.engine.runtime()
        check_bounds(guard, runtime)
        check_session(runtime.session)
        assert {n: s for n, s in sizes(runtime).items() if s > 50 and n not in BOUNDED} == {}
        assert runs == KEYS
        assert grown < 12 * MIB
