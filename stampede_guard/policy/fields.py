"""Fields of `Policy` and `Limits`: each default with its check, so that a new field needs no second list.

Each function makes a field of a dataclass. Its `metadata` has the `unit` and the `check`, which returns the value to
keep, or raises `ValueError` with the rule. `check_each` runs the checks of an object.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stampede_guard.durations import advice, seconds
from stampede_guard.errors import PolicyError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["check_each", "count", "flag", "number", "one_of", "time"]

_LONGEST = 10 * 366 * 86_400.0
_SHORTEST = 0.001


def _field(default: object, unit: str, check: Callable[[object], object]) -> Any:
    return dataclasses.field(default=default, metadata={"unit": unit, "check": check})


def time(default: float, *, least: float = _SHORTEST, instead_of_zero: str = "") -> Any:
    """A time, which may also be given as a text or a timedelta. `instead_of_zero`: what to write instead of 0."""
    rule = f"it must be a number of seconds between {least:g} and {_LONGEST:.0f} (ten years)"

    def check(given: object) -> object:
        value = seconds(given)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(rule + advice(given))
        if not (least <= value <= _LONGEST):
            raise ValueError(rule + (f"; {instead_of_zero}" if instead_of_zero and value == 0 else ""))
        return value

    return _field(default, "s", check)


def count(default: int, *, least: int = 1) -> Any:
    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"it must be a whole number of at least {least}")
        return value

    return _field(default, "count", check)


def number(default: float, unit: str, least: str, most: str) -> Any:
    """A number that is no time. `least` and `most` begin with a number; words may explain it."""
    low, high = (float(end.split()[0]) for end in (least, most))

    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"it must be a number between {least} and {most}")
        return value

    return _field(default, unit, check)


def flag(*, default: bool = False) -> Any:
    def check(value: object) -> object:
        if not isinstance(value, bool):
            raise ValueError("it must be True or False")
        return value

    return _field(default, "", check)


def one_of(default: str | None, *allowed: str | None, words: str = "") -> Any:
    def check(value: object) -> object:
        if value not in allowed:
            raise ValueError(words or f"it must be one of {', '.join(map(str, allowed))}")
        return value

    return _field(default, "", check)


def check_each(owner: DataclassInstance) -> None:
    """Check each field, and keep what its check returns. Raises `PolicyError`."""
    for field in dataclasses.fields(owner):
        given = getattr(owner, field.name)
        try:
            value = field.metadata["check"](given)
        except ValueError as error:
            raise PolicyError(field.name, given, str(error)) from None
        if value is not given:
            object.__setattr__(owner, field.name, value)
