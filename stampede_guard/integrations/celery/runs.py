"""`exclusive`: at most one run of a task at a time, or one for each value of some arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, Unpack
from urllib.parse import quote

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse
from stampede_guard.integrations.celery.functions import check_first, plain_function
from stampede_guard.leases.client import Leases
from stampede_guard.leases.core.timing import JOB_TTL, TimingOptions
from stampede_guard.leases.exclusive import Overlap, Skipped
from stampede_guard.options import ALL, takes_options
from stampede_guard.values.arguments.templates import check_names, names_in, parsed

__all__ = ["exclusive"]

P = ParamSpec("P")
R = TypeVar("R")


@takes_options("exclusive", own=ALL)
def exclusive(
    leases: Leases,
    name: str = "",
    *,
    overlap: Overlap = "skip",
    at_least_for: Duration = 0.0,
    wait: Duration = float("inf"),
    lease_ttl: Duration = JOB_TTL,
    **timing: Unpack[TimingOptions],
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """`leases.run_exclusive` for a task. A task that does not run, because another one runs, returns None.

    `name`: of the lease, by default module and name of the function. A template such as `"import:{repository}"` has one
    lease for each value of that parameter. The other options are those of `leases.run_exclusive`. Write it below
    `@app.task`. Raises `Misuse` for a coroutine function or a task, and what `leases.run_exclusive` raises. A call
    raises `StoreError` while the back end is away: then nothing ran.
    """
    check_first(leases, Leases, "exclusive", "leases")
    # Checks the options once, at decoration.
    leases.run_exclusive(
        "checked", overlap=overlap, at_least_for=at_least_for, wait=wait, lease_ttl=lease_ttl, **timing
    )

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        plain_function(function, "exclusive")
        name_for = _names(function, name)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            run = leases.run_exclusive(
                name_for(args, kwargs),
                overlap=overlap,
                at_least_for=at_least_for,
                wait=wait,
                lease_ttl=lease_ttl,
                **timing,
            )
            result = run.run_plain(functools.partial(function, *args, **kwargs))
            return None if isinstance(result, Skipped) else result

        return call

    return decorate


def _names(function: Callable[..., Any], template: str) -> Callable[[Any, Any], str]:
    """The name of the lease for a call's arguments. Raises `Misuse` for a template that cannot be filled in."""
    if not isinstance(template, str):
        raise Misuse(
            f"exclusive() needs the name of a lease, such as 'import:{{repository}}', not {template!r}"
        )
    if not template:
        whole = f"{function.__module__}.{function.__qualname__}"
        return lambda _args, _kwargs: whole
    signature, title = inspect.signature(function), f"{function.__name__}()"
    parts = parsed(template, title, what="lease")
    check_names(names_in(parts), title, signature.parameters, option="key", unkeyed=(), resources=())

    def fill(args: Any, kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return "".join(
            text + (_quoted(bound.arguments[parameter], parameter, title) if parameter else "")
            for text, parameter in parts
        )

    return fill


def _quoted(value: Any, parameter: str, title: str) -> str:
    """Quoted, so that two different calls never have one name."""
    if isinstance(value, str | int) or value is None:
        return quote(str(value), safe=" ")
    raise Misuse(
        f"the lease of {title} names {{{parameter}}}, and its value is a {type(value).__name__}: texts, whole numbers "
        "and None can be in the name of a lease"
    )
