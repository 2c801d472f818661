"""One worker of a herd of processes: `python -m stampede_guard.testing.processes.worker`. It gets its task
through stdin.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
import sys
from typing import Any, BinaryIO

from stampede_guard.errors import StampedeError
from stampede_guard.testing.counting import counted, face_of
from stampede_guard.testing.crowd import ask_all, result_of, threads_for
from stampede_guard.testing.processes.messages import LENGTH, Report, WorkerTask, packed, portable

__all__ = ["main"]


async def _work(job: WorkerTask, orders: BinaryIO, replies: BinaryIO) -> Report:
    function = _found(job)
    face = face_of(function)
    if face is None:
        raise StampedeError(f"{job.module}.{job.qualname} is not a cached function here")
    guard = face._guarded()
    if not guard.engine.store.is_shared:
        raise StampedeError(
            "its guard is in memory, which other processes do not see: give it a URL where the module is imported, or "
            "set $STAMPEDE_GUARD_URL for a bare @locked_cache"
        )
    # Connect before the herd begins, like workers that already serve.
    await guard.engine.store.fresh_for(f"{guard.prefix}=herd")
    replies.write(packed(Report()))
    await asyncio.to_thread(orders.readline)
    with counted(function) as count, threads_for(job.callers) as pool:
        caller = result_of(function, job.args, job.kwargs, pool)
        outcomes = await ask_all([caller] * job.callers, timeout=job.timeout)
        await guard.aclose()
        return Report(computations=count(), outcomes=tuple(map(portable, outcomes)))


def _found(job: WorkerTask) -> Any:
    found: Any = importlib.import_module(job.module)
    for name in job.qualname.split("."):
        found = getattr(found, name)
    return found


def main() -> None:
    orders = sys.stdin.buffer
    # Output of the function must not mix with the report.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    job: WorkerTask = pickle.loads(
        orders.read(int.from_bytes(orders.read(LENGTH), "big"))
    )  # from our own parent
    try:
        report = packed(asyncio.run(_work(job, orders, replies)))
    except Exception as error:
        report = packed(Report(problem=f"{type(error).__name__}: {error}"))
    view = memoryview(report)
    while view:
        view = view[replies.write(view) :]


if __name__ == "__main__":
    main()
