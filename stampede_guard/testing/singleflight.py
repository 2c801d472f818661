"""`assert_single_flight`: a herd on a function or an endpoint of yours costs one computation, or the test fails."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.testing import asgi
from stampede_guard.testing.counting import face_of, name_of
from stampede_guard.testing.crowd import Caller, Herd, checked_size
from stampede_guard.testing.herds import TIMEOUT, herd, herd_of

__all__ = ["assert_single_flight"]


async def assert_single_flight(
    target: Any,
    path: str | None = None,
    *,
    computes: Any = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    callers: int = 50,
    workers: int = 8,
    processes: bool = False,
    timeout: float = TIMEOUT,
) -> Herd:
    """`callers` at once, in `workers` workers: exactly one of them may have cost a computation, and all are answered.

    `target` is an ASGI application or an asynchronous client (`httpx.AsyncClient`), and `path` what it is asked for; or
    a cached function, called with `args` and `kwargs`. An application's lifespan runs around it; a client's does not.

    `computes` says whose computations are counted: see `herd`. By default it is the function itself, or all cached
    functions that are endpoints of the application. All other parameters are those of `herd`.

    Raises `AssertionError` when there were more computations than one, or none, or when a caller got an error or an
    answer of 500 or above; `Misuse` for what cannot be asked or counted.
    """
    if path is None:
        result = await herd(
            target, args=args, kwargs=kwargs, callers=callers, workers=workers,
            processes=processes, computes=computes, timeout=timeout,
        )  # fmt: skip
        _check(result, name_of(target if computes is None else computes))
        return result
    checked_size(callers, workers, timeout)
    if processes or args or kwargs:
        raise Misuse(
            "processes=, args= and kwargs= are for a function; an endpoint is told everything by its path"
        )
    if not isinstance(path, str):
        raise Misuse(
            f"path={path!r} is not allowed: give what is asked for, for example '/quality?project=7'"
        )
    if computes is None:
        computes = _endpoints(target)
    async with _asking(target, path, dict(headers or {})) as caller:
        result = await herd_of(caller, callers=callers, workers=workers, computes=computes, timeout=timeout)
    _check(result, name_of(computes))
    return result


@contextlib.asynccontextmanager
async def _asking(target: Any, path: str, headers: dict[str, str]) -> AsyncIterator[Caller]:
    # A FastAPI application has `get` as well, for routes; only clients have `request`.
    request = getattr(target, "request", None)
    if request is not None and inspect.iscoroutinefunction(request):
        yield functools.partial(request, "GET", path, headers=headers)
    elif request is not None:
        raise Misuse(
            f"a {type(target).__name__} asks one after the other, which is no herd: give the application itself, or an "
            "httpx.AsyncClient"
        )
    elif callable(target) and face_of(target) is None:
        async with asgi.lifespan(target) as state:
            yield functools.partial(asgi.get, target, path, state, headers)
    else:
        raise Misuse(
            f"{path!r} cannot be asked of {name_of(target)}: give an ASGI application or an httpx.AsyncClient; for a "
            "function leave the path out and write args=(...)"
        )


def _endpoints(app: Any) -> list[Callable[..., Any]]:
    found = [endpoint for endpoint in _all_endpoints(app) if face_of(endpoint) is not None]
    if not found:
        raise Misuse(
            "computes= is needed here, because no endpoint of this application is a cached function itself: name the "
            "cached function that it calls, a mock, or a function that returns how many computations there were"
        )
    return list({id(face_of(endpoint)): endpoint for endpoint in found}.values())


def _all_endpoints(app: Any) -> Iterator[Any]:
    for route in getattr(app, "routes", None) or ():
        yield getattr(route, "endpoint", None)
        yield from _all_endpoints(route)


def _check(result: Herd, what: str) -> None:
    size = f"{result.callers} callers in {result.workers} workers"
    statuses = [getattr(value, "status_code", None) for value in result.values]
    seen = ", ".join(sorted({str(status) for status in statuses if status is not None}))
    answered = f" The answers had status {seen}." if seen else ""
    if result.errors:
        first = result.errors[0]
        raise AssertionError(
            f"{len(result.errors)} of {size} got an error, the first of them {type(first).__name__}: {first} "
            f"({what} was computed {_times(result.computations)})"
        ) from first
    if any(isinstance(status, int) and status >= 500 for status in statuses):
        raise AssertionError(f"some of {size} were not served.{answered}")
    if result.computations == 0:
        raise AssertionError(
            f"{what} was not computed at all for {size}: was its entry there already (then invalidate it first, or let "
            f"its ttl pass on a FakeClock), or is it not what is called?{answered}"
        )
    if result.computations > 1:
        raise AssertionError(
            f"{what} was computed {_times(result.computations)} for {size}, and should have been once. Is it cached at "
            f"all, is its mode `on`, is something in its key that differs from caller to caller?{answered}"
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
