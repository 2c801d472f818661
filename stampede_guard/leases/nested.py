"""The leases under which the code that runs now was begun as a job: what asks for one of them would wait for itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from stampede_guard.errors import ReentrantCall

if TYPE_CHECKING:
    from stampede_guard.leases.house import Leases
    from stampede_guard.leases.lease import Lease

__all__ = ["inside", "refuse_own"]

_RUNNING: ContextVar[tuple[tuple[Leases, Lease], ...]] = ContextVar("stampede_guard_running_jobs", default=())


@contextlib.contextmanager
def inside(house: Leases, lease: Lease) -> Iterator[None]:
    """The body is a job's run. What it begins, tasks and threads, counts as part of it for as long as it lasts."""
    before = _RUNNING.set((*_RUNNING.get(), (house, lease)))
    try:
        yield
    finally:
        _RUNNING.reset(before)


def refuse_own(house: Leases, name: str) -> None:
    """Raises `ReentrantCall` in a run of the job whose lease is this one.

    Skipped because its own job runs, a function would never be called, and each slot of the job would be completed.
    """
    if any(
        known is house and lease.name == name and lease.remaining() > 0 for known, lease in _RUNNING.get()
    ):
        raise ReentrantCall(
            f"{name!r} waits for itself: the job of that name, which calls it, holds the lease of its name already; "
            "call the function itself there, without run_exclusive, or give the job another name="
        )
