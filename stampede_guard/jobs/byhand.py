"""Run a job now, outside its schedule, because a caller asks for it."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.execution import Execution
from stampede_guard.jobs.job import Job
from stampede_guard.jobs.keeping import OPERATOR_TIMEOUT
from stampede_guard.jobs.messages import Claim, Claimed, Ending
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.running import Running
from stampede_guard.leases.keeping.loop_state import LoopState

__all__ = ["CLAIMS_BY_HAND", "begun_by_hand"]

CLAIMS_BY_HAND = 20


async def begun_by_hand(
    client: Any, part: LoopState, runs: RunBackend, job: Job, *, version: int, running: Running
) -> tuple[Execution, asyncio.Task[Ending]]:
    """Claim the millisecond that has just passed, and start the run. Raises `StoreError`: then nothing runs."""
    registration = job.registration(part.prefix, version)
    for _ in range(CLAIMS_BY_HAND):
        # Register only a job that the back end does not know. This worker may have the older schedule, and registering
        # it would put it in force again.
        view = await runs.view(registration.job, timeout=OPERATOR_TIMEOUT)
        if view is None:
            view = await runs.register(registration, timeout=OPERATOR_TIMEOUT)
        if view.paused_at:
            log.warning("job %s: it runs by hand, and stays paused by %s", view.job, view.paused_by)
        slot, run, asked_at = int(view.at * 1000) - 1, part.world.fresh(), part.world.now()
        answer = await runs.claim(
            Claim(
                job=view.job,
                slot=slot,
                run=run,
                owner=part.owner,
                fingerprint=view.fingerprint,
                alive_for=job.terms.alive_for,
                by_hand=True,
            ),
            timeout=OPERATOR_TIMEOUT,
        )
        if isinstance(answer, Claimed):
            execution = Execution(
                client,
                part,
                runs,
                job,
                slot=slot,
                run=run,
                claimed=answer,
                asked_at=asked_at,
            )
            return execution, running.begin(execution)
        # Another caller claimed the same millisecond, or the schedule or the clock has just changed.
        await part.pause(0.001 + 0.01 * part.world.draw())
    raise StoreUnavailable(f"{CLAIMS_BY_HAND} claims of the job {job.name!r} in a row failed")
