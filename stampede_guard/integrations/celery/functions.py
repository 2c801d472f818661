"""What the decorators of tasks accept."""

from __future__ import annotations

import inspect
from typing import Any

from celery import Task

from stampede_guard.errors import Misuse
from stampede_guard.leases import checks

__all__ = ["check_first", "plain_function"]


def check_first(given: Any, kind: type, decorator: str, written: str) -> None:
    """Raises `Misuse` unless the first argument of the decorator is of that kind."""
    if not isinstance(given, kind):
        raise Misuse(
            f"{decorator}() takes a {kind.__name__} first, not a {type(given).__name__}: write @{decorator}({written})"
        )


def plain_function(function: Any, decorator: str) -> None:
    """Raises `Misuse` for anything but a plain function."""
    if isinstance(function, Task):
        raise Misuse(
            f"{function.name} is a task already: write @{decorator}(...) below @app.task, not above it"
        )
    if inspect.iscoroutinefunction(function):
        raise Misuse(
            f"{function.__qualname__} is a coroutine function, and Celery would not await it: write def, and "
            "asyncio.run(...) in it"
        )
    if not inspect.isroutine(function) or checks.gives_values(function):
        raise Misuse(f"@{decorator}(...) decorates plain functions, not a {type(function).__name__}")
