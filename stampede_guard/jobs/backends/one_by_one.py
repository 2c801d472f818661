"""A look at one job in single steps, for a back end without a combined step."""

from __future__ import annotations

from typing import Any

from stampede_guard.jobs.messages import JobPoll, PollAnswer

__all__ = ["looked"]


async def looked(runs: Any, look: JobPoll, *, again: int, timeout: float) -> PollAnswer:
    """Raises `StoreError`. The steps before the failed one stay done."""
    job = look.registration.job
    view = await runs.follow(look.registration, timeout=timeout)
    vanished = await runs.sweep(job, timeout=timeout)
    tried: list[Any] = []
    if look.attempts > 1:
        tried = await runs.retriable(job, attempts=look.attempts, limit=again, timeout=timeout)
    return PollAnswer(view, tuple(vanished), tuple(tried))
