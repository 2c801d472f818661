"""A crowd: callers that begin at the same moment, and the outcome of each."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.testing import given

__all__ = [
    "Caller",
    "Herd",
    "CallerOutcome",
    "ask_all",
    "checked_size",
    "result_of",
    "shares",
    "threads_for",
    "without_kit",
]

WORKERS = 8
_KIT = Path(__file__).parent.as_posix()
Caller = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class CallerOutcome:
    """The outcome of one caller. `waited` is in seconds."""

    value: Any
    error: BaseException | None
    waited: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """The outcome of a herd.

    `computations` counts calls of the function behind the cache. `values` are the callers' results, `errors` their
    exceptions, both in the order of the callers. `waited` has each caller's seconds.
    """

    computations: int
    values: tuple[Any, ...]
    errors: tuple[BaseException, ...]
    waited: tuple[float, ...]
    callers: int
    workers: int

    @classmethod
    def of(cls, outcomes: Sequence[CallerOutcome], *, computations: int, workers: int) -> Herd:
        return cls(
            computations=computations,
            values=tuple(outcome.value for outcome in outcomes if outcome.error is None),
            errors=tuple(outcome.error for outcome in outcomes if outcome.error is not None),
            waited=tuple(outcome.waited for outcome in outcomes),
            callers=len(outcomes),
            workers=workers,
        )


def checked_size(callers: Any, workers: Any, timeout: Any) -> tuple[int, float]:
    """The number of workers, and the time-out in seconds. Raises `Misuse` for an impossible herd."""
    __tracebackhide__ = True
    given.count("callers={}", callers, meaning="how many there are in all", least=1)
    workers = min(WORKERS, callers) if workers is None else workers
    given.count("workers={}", workers, meaning="how many serve them", least=1)
    seconds = given.seconds("timeout={}", timeout, meaning="the time that the whole herd may take")
    if callers < workers:
        raise Misuse(
            f"callers={callers} are too few for workers={workers}: `callers` counts those of all workers together, "
            "and each worker needs one"
        )
    return workers, seconds


def shares(callers: int, workers: int) -> list[int]:
    """How many callers each worker has."""
    return [callers // workers + (worker < callers % workers) for worker in range(workers)]


def without_kit(error: BaseException) -> BaseException:
    """The error without the frames of this kit: a test's failure shows what its own code did."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        if not Path(trace.tb_frame.f_code.co_filename).as_posix().startswith(_KIT):
            frames.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return error.with_traceback(kept)


async def ask_all(callers: Sequence[Caller], *, timeout: float) -> list[CallerOutcome]:
    """Start all callers at once. Raises `TimeoutError` if some have no result after `timeout` seconds."""
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_outcome(caller), name="stampede_guard herd") for caller in callers]
    try:
        await asyncio.wait(tasks, timeout=timeout)
        late = sum(not task.done() for task in tasks)
        if late:
            raise TimeoutError(
                f"{late} of {len(tasks)} callers have no answer after {timeout:g} s (timeout=)"
            )
        return [task.result() for task in tasks]
    finally:
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


async def _outcome(caller: Caller) -> CallerOutcome:
    began = time.perf_counter()
    value: Any = None
    error: BaseException | None = None
    try:
        value = await caller()
    except asyncio.CancelledError as raised:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # The herd is not cancelled: this is the result of one caller.
        error = raised
    except Exception as raised:
        error = raised
    return CallerOutcome(value, error, time.perf_counter() - began)


def result_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Any, pool: Executor) -> Caller:
    """A caller of this function. A plain function is called in a thread, where it may block."""
    call = functools.partial(function, *args, **kwargs)
    target: Any = inspect.unwrap(function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(target):
        return call

    async def in_thread() -> Any:
        context = contextvars.copy_context()
        result = await asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(call))
        return await result if inspect.isawaitable(result) else result

    return in_thread


@contextlib.contextmanager
def threads_for(callers: int) -> Iterator[Executor]:
    """One thread per caller, so that no caller waits for another before it starts. Threads that hang are left
    behind.
    """
    pool = ThreadPoolExecutor(callers, thread_name_prefix="stampede_guard herd")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
