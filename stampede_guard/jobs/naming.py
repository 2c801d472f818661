"""The names of jobs, and the refusal of two functions with one name."""

from __future__ import annotations

from typing import Any

from stampede_guard.errors import Misuse

__all__ = ["name_of", "place_of", "two_functions"]


def name_of(function: Any, given: str | None) -> str:
    """The given name, or the function's own. Raises `Misuse` if neither is a valid name."""
    name = getattr(function, "__name__", "") if given is None else given
    if not name or not isinstance(name, str) or name == "<lambda>":
        raise Misuse("this job has no name: write name=..., the same in every version of your program")
    return name


def two_functions(name: str, known: Any, function: Any) -> Misuse:
    return Misuse(
        f"two functions have the job name {name!r}: {place_of(known)} and {place_of(function)}; "
        "give one of them another name="
    )


def place_of(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
