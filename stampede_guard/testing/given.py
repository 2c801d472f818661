"""Checks the arguments of a test's call."""

from __future__ import annotations

from stampede_guard.errors import Misuse

__all__ = ["count", "seconds"]


def seconds(call: str, given: object, *, meaning: str) -> None:
    """Raises `Misuse` unless it is a number of 0 or above."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise Misuse(f"{call.format(repr(given))} is not allowed: give {meaning} in seconds, 0 or more")


def count(call: str, given: object, *, meaning: str, least: int = 0) -> None:
    """Raises `Misuse` unless it is a whole number of at least `least`."""
    if type(given) is not int or given < least:
        raise Misuse(
            f"{call.format(repr(given))} is not allowed: give {meaning}, a whole number of at least {least}"
        )
