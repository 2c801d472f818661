"""Checks the arguments of a test's call."""

from __future__ import annotations

from stampede_guard import durations
from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse

__all__ = ["count", "seconds"]


def seconds(call: str, given: Duration, *, meaning: str) -> float:
    """The given time in seconds, 0 or above. Raises `Misuse`."""
    value = durations.seconds(given)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        rule = f"give {meaning} in seconds, 0 or more{durations.advice(given)}"
        raise Misuse(f"{call.format(repr(given))} is not allowed: {rule}")
    return value


def count(call: str, given: object, *, meaning: str, least: int = 0) -> None:
    """Raises `Misuse` unless it is a whole number of at least `least`."""
    if type(given) is not int or given < least:
        raise Misuse(
            f"{call.format(repr(given))} is not allowed: give {meaning}, a whole number of at least {least}"
        )
