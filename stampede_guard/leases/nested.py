"""The leases of the jobs whose runs started the current code. A request for one of them would wait for itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from stampede_guard.errors import ReentrantCall

if TYPE_CHECKING:
    from stampede_guard.leases.client import Leases
    from stampede_guard.leases.lease import Lease

__all__ = ["inside", "refuse_own"]

_RUNNING: ContextVar[tuple[tuple[Leases, Lease], ...]] = ContextVar("stampede_guard_running_jobs", default=())


@contextlib.contextmanager
def inside(client: Leases, lease: Lease) -> Iterator[None]:
    """The body is a job's run. Tasks and threads that it starts are part of the run until the run ends."""
    before = _RUNNING.set((*_RUNNING.get(), (client, lease)))
    try:
        yield
    finally:
        _RUNNING.reset(before)


def refuse_own(client: Leases, name: str) -> None:
    """Raises `ReentrantCall` in a run of the job whose lease is this one.

    Skipping the call would be wrong: the job itself holds the lease, so the function would never run, and each slot of
    the job would still count as completed.
    """
    if any(
        known is client and lease.name == name and lease.remaining() > 0 for known, lease in _RUNNING.get()
    ):
        raise ReentrantCall(
            f"{name!r} waits for itself: the job of that name calls it and already holds the lease of that name; "
            "call the function there without run_exclusive, or give the job another name="
        )
