"""Checks of the parameters of leases and jobs. Each error names the field and the rule."""

from __future__ import annotations

import inspect
import math
from typing import Any

from stampede_guard import durations
from stampede_guard.durations import Duration
from stampede_guard.errors import PolicyError
from stampede_guard.values.arguments.signatures import signature_of

__all__ = ["count", "flag", "gives_values", "seconds", "storable", "takes_one", "text", "whole"]


def seconds(
    field: str, given: Duration, *, least: float = 0.0, above: bool = False, endless: bool = False
) -> float:
    """The given time in seconds, at least `least`. `above`: it must be greater. `endless`: `math.inf` is allowed."""
    rule = f"write a number of seconds, {f'more than {least:g}' if above else f'{least:g} or more'}"
    value = durations.seconds(given)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise PolicyError(field, given, rule + durations.advice(given))
    if value < least or (above and value == least) or (math.isinf(value) and not endless):
        raise PolicyError(field, given, rule)
    return value


def text(value: object) -> str:
    """The value if it is a string, else an empty string, which the caller's check then refuses."""
    return value if isinstance(value, str) else ""


def storable(given: str) -> str:
    """The text as every back end can store it.

    PostgreSQL stores no NUL character, and no back end stores half a surrogate pair.
    """
    return given.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def whole(field: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PolicyError(field, value, f"write a whole number, {least} or more")


def count(field: str, value: object) -> None:
    """A finite number, 0 or more; it may have a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise PolicyError(field, value, "write a number, 0 or more")


def flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise PolicyError(field, value, "write True or False")


def takes_one(field: str, function: Any, what: str) -> None:
    """A function, coroutine function or object with `__call__` that takes one argument, `what`."""
    if not callable(function) or isinstance(function, type):
        raise PolicyError(field, function, f"write a function that takes {what}")
    if gives_values(function):
        raise PolicyError(
            field,
            function,
            "its body has `yield`, so a call would run nothing: write a function that returns",
        )
    try:
        signature_of(function).bind(None)
    except TypeError:
        raise PolicyError(field, function, f"it must take exactly one argument, {what}") from None
    except ValueError:
        # A function written in C without a signature.
        return


def gives_values(function: Any) -> bool:
    """Whether it is a generator function, sync or async. A call of one runs nothing of its body."""
    return any(
        inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found)
        for found in (function, getattr(type(function), "__call__", None))  # noqa: B004
    )
