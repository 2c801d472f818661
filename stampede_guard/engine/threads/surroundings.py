"""What a plain function finds around it while it computes in a thread of the guard.

A computation runs in a clean context. So it would not find the application of its caller, which frameworks keep in a
context variable. A framework's integration registers a function here. It is called for each call that computes, in the
caller's context. It returns what runs the computation, with its surroundings, in the other thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Surroundings", "surround_with", "surroundings_of_caller"]

Surroundings = Callable[[Callable[[], Any], str], Any]
"""Called in the thread of the computation, with the computation and the function's name. Returns its result."""

_found: list[Callable[[], Surroundings | None]] = []


def surround_with(find: Callable[[], Surroundings | None]) -> None:
    """Register a function that finds the caller's surroundings, or returns None if it has none."""
    if find not in _found:
        _found.append(find)


def surroundings_of_caller() -> Surroundings | None:
    for find in _found:
        surroundings = find()
        if surroundings is not None:
            return surroundings
    return None
