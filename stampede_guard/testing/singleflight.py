"""`assert_single_flight`: the test fails unless a herd on your function or endpoint costs one computation."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from stampede_guard.api.apps.routes import routes_of
from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse
from stampede_guard.options import takes_options
from stampede_guard.testing import asgi
from stampede_guard.testing.counting import counted, face_of, name_of
from stampede_guard.testing.crowd import Caller, Herd, checked_size, without_kit
from stampede_guard.testing.herds import TIMEOUT, herd, herd_of

__all__ = ["assert_single_flight"]

_MOST_LAYERS = 20


@takes_options("assert_single_flight", own=("path", "args", "callers", "workers", "timeout"))
async def assert_single_flight(
    target: Any,
    path: str | None = None,
    *,
    computes: Any = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    callers: int = 50,
    workers: int | None = None,
    processes: bool = False,
    timeout: Duration = TIMEOUT,
) -> Herd:
    """Start `callers` at once, in `workers` workers: there must be exactly one computation, and all must get a
    result. Without `workers`, there are eight, or one per caller if there are fewer callers.

    `target` is an ASGI application or an asynchronous client (`httpx.AsyncClient`), and `path` is the requested
    path. Or it is a cached function, called with `args` and `kwargs`. An application's lifespan runs around the
    herd; a client's does not.

    `computes` names the computations to count: see `herd`. The default is the function itself, or each cached
    function that is an endpoint of the application. All other parameters are those of `herd`.

    Raises `AssertionError` if there were more computations than one, or none, or if a caller got an error or a
    response of 500 or above. Raises `Misuse` if the target cannot be called or counted.
    """
    __tracebackhide__ = True
    if path is None:
        result = await herd(
            target, args=args, kwargs=kwargs, callers=callers, workers=workers,
            processes=processes, computes=computes, timeout=timeout,
        )  # fmt: skip
        _check(result, name_of(target if computes is None else computes))
        return result
    workers, longest = checked_size(callers, workers, timeout)
    if processes or args or kwargs:
        raise Misuse(
            "processes=, args= and kwargs= are for a function; an endpoint gets everything through its path"
        )
    if not isinstance(path, str):
        raise Misuse(
            f"path={path!r} is not allowed: give the requested path, for example '/quality?project=7'"
        )
    with _EachOnce.of(target, computes) as counted_one:
        async with _asking(target, path, dict(headers or {})) as caller:
            result = await herd_of(
                caller, callers=callers, workers=workers, computes=counted_one.computes, timeout=longest
            )
        _check(result, counted_one.title())
    return result


class _EachOnce:
    """What is counted. Without `computes`, each cached endpoint by itself: one of them may call another one."""

    def __init__(self, computes: Any, endpoints: Sequence[Any]) -> None:
        self.computes = computes
        self._endpoints = endpoints
        self._counts: list[Callable[[], int]] = []
        self._stack = contextlib.ExitStack()

    @classmethod
    def of(cls, target: Any, computes: Any) -> _EachOnce:
        """Raises `Misuse` if there is nothing to count."""
        return cls(computes, _endpoints(target) if computes is None else ())

    def __enter__(self) -> _EachOnce:
        self._counts = [self._stack.enter_context(counted(one)) for one in self._endpoints]
        if self._counts:
            self.computes = lambda: max(count() for count in self._counts)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def title(self) -> str:
        """What was computed most often, for messages."""
        if len(self._endpoints) < 2:
            return name_of(self._endpoints[0] if self._endpoints else self.computes)
        counts = [count() for count in self._counts]
        found = [one for one, count in zip(self._endpoints, counts, strict=True) if count == max(counts) > 0]
        return name_of(found) if found else f"each of the {len(counts)} cached endpoints"


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
    routed = _behind(app)
    endpoints: list[Any] = (
        [] if routed is None else [getattr(route, "endpoint", None) for route in routes_of(routed)]
    )
    found = [endpoint for endpoint in endpoints if face_of(endpoint) is not None]
    if not found:
        why = (
            f"this {type(app).__name__} does not tell its application"
            if routed is None
            else "no endpoint of this application is a cached function itself"
        )
        raise Misuse(
            f"computes= is needed here, because {why}: name the cached function that is called, a mock, or a function "
            f"that returns how many computations there were"
        )
    return list({id(face_of(endpoint)): endpoint for endpoint in found}.values())


def _behind(target: Any) -> Any:
    """The application with routes that a client asks, or that stands behind middleware. None if it is not found."""
    for _ in range(_MOST_LAYERS):
        # A client of httpx keeps its transport under a private name. `ASGITransport.app` is public.
        outer = getattr(target, "_transport", target)
        inner = getattr(outer, "app", None) or getattr(outer, "_app", None)  # the second: StampedeMiddleware
        if inner is None:
            break
        target = inner
    return target if getattr(target, "routes", None) is not None else None


def _check(result: Herd, what: str) -> None:
    __tracebackhide__ = True
    size = f"{result.callers} callers in {result.workers} workers"
    statuses = [getattr(value, "status_code", None) for value in result.values]
    seen = ", ".join(sorted({str(status) for status in statuses if status is not None}))
    answered = f" The answers had status {seen}." if seen else ""
    if result.errors:
        first = without_kit(result.errors[0])
        raise AssertionError(
            f"{len(result.errors)} of {size} got an error, the first of them {type(first).__name__}: {first} "
            f"({what} was computed {_times(result.computations)}). Expected: one computation, and its value for all. "
            f"See the error of that caller above: does one call alone work in this test?"
        ) from first
    if any(isinstance(status, int) and status >= 500 for status in statuses):
        raise AssertionError(
            f"some of {size} were not served.{answered} Expected: no status of 500 or above ({what} was computed "
            f"{_times(result.computations)}). Ask for the path once and look at the response and the log. A 503 of "
            f"stampede_guard means that a caller waited too long, or that the store is away"
        )
    if result.computations == 0:
        raise AssertionError(
            f"{what} was not computed at all for {size}: was its entry there already (then invalidate it first, or let "
            f"its ttl pass on a FakeClock), or is it not what is called (then say with computes= what is)?{answered}"
        )
    if result.computations > 1:
        raise AssertionError(
            f"{what} was computed {_times(result.computations)} for {size}, and should have been once. Is it cached at "
            f"all, is its mode `on`, is its store there (`on_store`), is something in its key that differs from caller "
            f"to caller?{answered}"
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
