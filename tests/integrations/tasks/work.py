"""The work of all task systems: cached and exclusive functions, and the bodies of the tasks that call them.

The guard is made, and used, when this module is imported. So a worker that imports it and then forks has children whose
guard was already connected in the parent.
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard
from stampede_guard.leases import SKIPPED, RedisLeases
from tests.integrations.tasks.bell import Bell

URL, NAMESPACE = os.environ["TASKS_URL"], os.environ["TASKS_NAMESPACE"]

guard = StampedeGuard.from_url(URL, namespace=NAMESPACE)
leases = RedisLeases.from_url(URL, namespace=NAMESPACE, restart="trust")
bell = Bell(URL, NAMESPACE)


@guard.locked_cache(ttl=600)
def warm() -> int:
    return os.getpid()


parent = warm()


@guard.locked_cache(ttl=600)
def total(key: str) -> str:
    bell.ring("computed", os.getpid())
    bell.hold(key)
    return f"total of {key}"


@guard.locked_cache(ttl=600)
async def atotal(key: str) -> str:
    bell.ring("computed", os.getpid())
    await asyncio.to_thread(bell.hold, key)
    return f"total of {key}"


@guard.locked_cache(ttl=lambda number: 0.001 if number == 1 else 600, stale_ttl=600)
def figure() -> int:
    """The first value is stale at once, so the second computation is a refresh in the background."""
    number = bell.count("figure")
    bell.ring("figures", number)
    if number == 2:
        bell.hold("figure")
    return number


@leases.run_exclusive("import")
def import_all() -> str:
    bell.ring("imports", os.getpid())
    bell.hold("import")
    return "imported"


@leases.run_exclusive("import")
async def aimport_all() -> str:
    bell.ring("imports", os.getpid())
    await asyncio.to_thread(bell.hold, "import")
    return "imported"


# --- the bodies of tasks


def report(key: str) -> None:
    bell.ring("began", os.getpid())
    bell.ring("reported", total(key))


async def areport(key: str) -> None:
    bell.ring("began", os.getpid())
    bell.ring("reported", await atotal(key))


def look() -> None:
    bell.ring("looked", figure())


def exclusive() -> None:
    result = import_all()
    bell.ring("skipped" if result is SKIPPED else "done", os.getpid())


async def aexclusive() -> None:
    result = await aimport_all()
    bell.ring("skipped" if result is SKIPPED else "done", os.getpid())
