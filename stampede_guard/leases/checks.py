"""What the parameters of leases and jobs may be. What is raised names the field and the rule."""

from __future__ import annotations

import inspect
import math
from typing import Any

from stampede_guard.errors import Misuse, PolicyError

__all__ = ["count", "flag", "gives_values", "no_other", "seconds", "takes_one", "text", "whole"]


def seconds(
    field: str, value: object, *, least: float = 0.0, above: bool = False, endless: bool = False
) -> None:
    """At least `least`, or more than that; with `endless`, `math.inf` as well."""
    rule = f"write a number of seconds, {f'more than {least:g}' if above else f'{least:g} or more'}"
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise PolicyError(field, value, rule)
    if value < least or (above and value == least) or (math.isinf(value) and not endless):
        raise PolicyError(field, value, rule)


def text(value: object) -> str:
    """Itself, or nothing where it is no text, for what is then refused as that."""
    return value if isinstance(value, str) else ""


def whole(field: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PolicyError(field, value, f"write a whole number, {least} or more")


def count(field: str, value: object) -> None:
    """A finite number that is not negative, whole or not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise PolicyError(field, value, "write a number, 0 or more")


def flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise PolicyError(field, value, "write True or False")


def takes_one(field: str, function: Any, what: str) -> None:
    """A function, coroutine function or object with `__call__` that can be called with `what`."""
    if not callable(function) or isinstance(function, type):
        raise PolicyError(field, function, f"write a function that takes {what}")
    if gives_values(function):
        raise PolicyError(
            field, function, "it has `yield`, so nothing of it would run: write one that returns"
        )
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise PolicyError(field, function, f"it is called with {what}, and must take that alone") from None
    except ValueError:
        # A function in C that does not tell.
        return


def gives_values(function: Any) -> bool:
    """Whether it is a generator function of either kind: a call of it runs nothing."""
    return any(
        inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found)
        for found in (function, getattr(type(function), "__call__", None))  # noqa: B004
    )


def no_other(what: str, given: Any, known: Any) -> None:
    """Raises `Misuse` for names among `given` that are none of `known`."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise Misuse(f"{what} has no {', '.join(unknown)}; it has {', '.join(known)}")
