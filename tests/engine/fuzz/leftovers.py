"""What may not be left when all callers of a fuzzed fleet have ended and all times have passed."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.stores.memory import MemoryStore
from tests.support.inside import comparisons_of, runtimes_of

__all__ = ["left_in_guards", "left_in_loop", "left_in_store"]


def left_in_guards(guards: dict[str, StampedeGuard]) -> list[str]:
    return [
        f"{label} has {what} left: {left}"
        for label, guard in guards.items()
        for runtime in runtimes_of(guard).values()
        for what, left in _parts(runtime).items()
        if left
    ]


def _parts(runtime: Any) -> dict[str, Any]:
    batches = list(runtime.batches.values())
    return {
        "flights": dict(runtime.flights),
        "fallbacks": runtime.fallbacks,
        "ends of fallbacks": runtime.fallback_ends,
        "waiting for slots": len(runtime.slots),
        "slots": runtime.slots._taken,
        "pending": runtime.unsettled.pending,
        "unsettled": runtime.unsettled.names,
        "abandoned": runtime.abandoned,
        "looks": comparisons_of(runtime),
        "questions of looks": runtime.shadow._asking,
        "undecided ids": [each._expected for each in batches if each._expected],
        "batches": [each._gatherings for each in batches if each._gatherings],
        "orders": runtime.orders,
    }


def left_in_store(memory: MemoryStore) -> list[str]:
    entries = {name: memory.look(name) for name in memory.names()}
    leased = [
        f"{name} is leased for ever: {entry.lease}"
        for name, entry in entries.items()
        if entry.lease is not None
    ]
    return leased + [
        f"{name} has slots left: {entry.slots}" for name, entry in entries.items() if entry.slots
    ]


def left_in_loop(loop: asyncio.AbstractEventLoop, memory: MemoryStore) -> list[str]:
    """After the guards are closed."""
    found = []
    tasks = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    if tasks:
        found.append(f"tasks are left: {tasks}")
    timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
    if timers:
        found.append(f"timers are left: {timers}")
    if memory._subscribers or memory._watchers:
        found.append("somebody still listens")
    return found
