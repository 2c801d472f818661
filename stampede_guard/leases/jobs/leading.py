"""The leader mode, for those who want one worker to have the scheduler: it runs where the election was won.

    election = leases.election("scheduler", on_elected=leading(scheduler))
    scheduler.start(paused=True)

Between two leaders a firing may be lost, or, where a leader was stopped in the middle of it, begun twice. Slots
(`SlotExecutor`) have neither fault, and need no leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.leases.lease import Lease

__all__ = ["leading"]


def leading(scheduler: Any) -> Callable[[Lease], Coroutine[Any, Any, None]]:
    """For `on_elected`: the scheduler of APScheduler 3 is resumed, and paused when leadership ends.

    What it runs then is cancelled, as far as it is coroutines. Raises `Misuse` for what cannot be paused.
    """
    if not all(callable(getattr(scheduler, name, None)) for name in ("pause", "resume")):
        raise Misuse(
            f"leading() needs a scheduler that can pause and resume, not a {type(scheduler).__name__}"
        )

    async def lead(_lease: Lease) -> None:
        scheduler.resume()
        try:
            await asyncio.Event().wait()
        finally:
            scheduler.pause()
            await _cancel_runs(scheduler)

    return lead


async def _cancel_runs(scheduler: Any) -> None:
    running: set[asyncio.Future[Any]] = set()
    for executor in getattr(scheduler, "_executors", {}).values():
        for pending in ("_pending_futures", "_pending"):
            running |= {run for run in getattr(executor, pending, ()) if not run.done()}
    for run in running:
        run.cancel()
    if running:
        await asyncio.wait(running)
