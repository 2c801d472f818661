"""`herd(fn, callers=50, workers=8)`: many callers at once, and how many computations they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse
from stampede_guard.options import takes_options
from stampede_guard.testing.counting import counted, face_of, name_of
from stampede_guard.testing.crowd import Caller, Herd, ask_all, checked_size, result_of, shares, threads_for
from stampede_guard.testing.processes.processes import herd_of_processes
from stampede_guard.testing.seats import seats

__all__ = ["herd", "herd_of"]

TIMEOUT = 60.0


@takes_options("herd", own=("args", "callers", "workers", "timeout"))
async def herd(
    fn: Callable[..., Any],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    callers: int = 50,
    workers: int | None = None,
    processes: bool = False,
    computes: Any = None,
    timeout: Duration = TIMEOUT,
) -> Herd:
    """Call `fn(*args, **kwargs)` from `callers` callers in `workers` workers at once; return the outcome.

    Without `workers`, there are eight, or one per caller if there are fewer callers.

    By default the workers are simulated in this process and on this event loop. Each has its own flights, last
    values and session on the guard's store, which may be memory. With `processes=True` they are spawned processes
    that import the function by its name. So the function must be importable, and its guard must be on a store that
    processes share.

    Computations are calls of the decorated function. For any other `fn`, name what to count: `computes` is a cached
    function, a mock, a function that returns their number, or a list of these.

    Background refreshes end before this returns. `timeout` (default 60) is in seconds, for the whole call.

    Raises `Misuse` if `fn` cannot be called or counted, `TimeoutError` if callers have no result in time.
    """
    __tracebackhide__ = True
    workers, longest = checked_size(callers, workers, timeout)
    if not callable(fn):
        raise Misuse(
            f"herd() takes a function, not a {type(fn).__name__}: write herd(fn, args=(7,)), not herd(fn(7))"
        )
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise Misuse(
            f"args={args!r} is not allowed: give the positional arguments as a tuple, for example args=(7,)"
        )
    if processes:
        if computes is not None:
            raise Misuse(
                "computes= is for workers in this process: others count calls of the cached function itself"
            )

        return await herd_of_processes(
            fn, tuple(args), dict(kwargs or {}), callers=callers, workers=workers, timeout=longest
        )
    if computes is None and face_of(fn) is None:
        raise Misuse(
            f"herd() cannot tell what {name_of(fn)} computes, because it is not decorated with @locked_cache or "
            "@cached_many itself: name what is, for example herd(fn, computes=cached_function)"
        )
    with threads_for(callers) as pool:
        caller = result_of(fn, args, kwargs or {}, pool)
        return await herd_of(
            caller,
            callers=callers,
            workers=workers,
            computes=fn if computes is None else computes,
            timeout=longest,
        )


async def herd_of(caller: Caller, *, callers: int, workers: int, computes: Any, timeout: float) -> Herd:
    """The same for any caller."""
    __tracebackhide__ = True
    with counted(computes) as count:
        async with seats(workers) as taken:
            asking = [
                seat.at(caller)
                for seat, share in zip(taken, shares(callers, workers), strict=True)
                for _ in range(share)
            ]
            outcomes = await ask_all(asking, timeout=timeout)
        return Herd.of(outcomes, computations=count(), workers=workers)
