"""A herd whose workers are spawned processes, each with its own interpreter and connections."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from typing import Any

from stampede_guard.errors import Misuse, StampedeError
from stampede_guard.testing.counting import face_of, name_of
from stampede_guard.testing.crowd import Herd, shares
from stampede_guard.testing.processes.messages import LENGTH, Report, WorkerTask, packed

__all__ = ["herd_of_processes"]

WORKER = "stampede_guard.testing.processes.worker"


async def herd_of_processes(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    callers: int,
    workers: int,
    timeout: float,
) -> Herd:
    """See `herd`. Raises `Misuse` if other processes cannot import the function or cannot reach its store."""
    module, qualname = _address(function)
    face = face_of(function)
    if face is None:
        raise Misuse(
            f"herd(processes=True) counts calls of a function decorated with @locked_cache or @cached_many, and "
            f"{name_of(function)} is not one"
        )
    if not face._guarded().engine.store.is_shared:
        raise Misuse(
            f"herd(processes=True) needs a store that processes share, and the guard of {name_of(function)} is in "
            'memory: use StampedeGuard.from_url("redis://localhost:6379/0"), or leave processes=True out'
        )
    jobs = [WorkerTask(module, qualname, args, kwargs, share, timeout) for share in shares(callers, workers)]
    try:
        orders = [packed(job) for job in jobs]
    except Exception as error:
        raise Misuse(
            f"args and kwargs must be picklable, because processes are told of them: {error}"
        ) from error
    try:
        async with asyncio.timeout(timeout):
            reports = await _carried_out(orders)
    except TimeoutError:
        raise TimeoutError(
            f"the processes of the herd were not done after {timeout:g} s (timeout=)"
        ) from None
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    computations = sum(report.computations for report in reports)
    return Herd.of(outcomes, computations=computations, workers=workers)


def _address(function: Callable[..., Any]) -> tuple[str, str]:
    module = getattr(function, "__module__", None) or ""
    qualname = getattr(function, "__qualname__", None) or ""
    found: Any = None
    if module != "__main__" and qualname and not hasattr(function, "args"):
        with contextlib.suppress(ImportError, AttributeError):
            found = importlib.import_module(module)
            for name in qualname.split("."):
                found = getattr(found, name)
    if found is not function:
        raise Misuse(
            f"herd(processes=True) starts processes that import the function by its name, and {module}.{qualname} is "
            "not that function there: define it at the top level of a module that can be imported, and not in the "
            "program that is run itself"
        )
    return module, qualname


async def _carried_out(orders: list[bytes]) -> list[Report]:
    started: list[Process] = []
    try:
        for order in orders:
            process = await _started()
            started.append(process)
            _tell(process, order)
        await asyncio.gather(*map(_report, started))
        for process in started:
            _tell(process, b"go\n")
        return await asyncio.gather(*map(_report, started))
    finally:
        for process in started:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        await asyncio.gather(*(process.wait() for process in started))


async def _started() -> Process:
    # The child can import all that this process can import.
    paths = [path or os.getcwd() for path in sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", WORKER, stdin=PIPE, stdout=PIPE, env=environment
    )


def _tell(process: Process, order: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(order)


async def _report(process: Process) -> Report:
    """Raises `StampedeError` if a worker could not do its task."""
    assert process.stdout is not None
    try:
        length = int.from_bytes(await process.stdout.readexactly(LENGTH), "big")
        report: Report = pickle.loads(await process.stdout.readexactly(length))  # from our own child
    except asyncio.IncompleteReadError:
        code = await process.wait()
        raise StampedeError(
            f"a worker process of the herd ended with status {code}; see its output"
        ) from None
    if report.problem:
        raise StampedeError(f"a worker process of the herd could not do its task: {report.problem}")
    return report
