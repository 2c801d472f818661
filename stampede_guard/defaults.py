"""The default guard: that of every bare `@locked_cache`."""

from __future__ import annotations

import logging
import os
import sys

from stampede_guard.definition import Definition
from stampede_guard.forks import renew_in_children
from stampede_guard.guard import StampedeGuard
from stampede_guard.locks import PassableLock
from stampede_guard.registry import Registry

__all__ = ["configure", "default_guard", "register_bare"]

log = logging.getLogger("stampede_guard")

_default: StampedeGuard | None = None
_lock = PassableLock()
"""Threads that call plain functions for the first time make one default guard between them."""
renew_in_children(sys.modules[__name__], "_lock", PassableLock)


_waiting = Registry()
"""Bare functions decorated since the default guard was last forgotten, while there was none yet."""


def configure(guard: StampedeGuard | None) -> None:
    """The guard of every bare `@locked_cache`, also of functions decorated before. None forgets it.

    Raises `KeyPartError` where one of these has the name of a function of the guard's own.
    """
    global _default, _waiting
    if guard is not None:
        guard.register_all(_waiting)
    _default, _waiting = guard, Registry()


def register_bare(name: str, definition: Definition) -> None:
    """A function under a bare `@locked_cache`. Raises `KeyPartError` if another one has its name."""
    if _default is not None:
        _default.register(name, definition)
    else:
        _waiting.add("", name, definition)


def default_guard() -> StampedeGuard:
    """What `configure` was given; else one for `$STAMPEDE_GUARD_URL`, `$REDIS_URL`, or memory with a warning."""
    if _default is None:
        with _lock:
            _make_default()
    assert _default is not None
    return _default


def _make_default() -> None:
    global _default
    if _default is None:
        url = os.environ.get("STAMPEDE_GUARD_URL") or os.environ.get("REDIS_URL")
        if not url:
            url = "memory://"
            log.warning(
                "@locked_cache has no store: neither configure(guard) nor $STAMPEDE_GUARD_URL nor $REDIS_URL is set. "
                "Values are kept in this process; other workers are not covered"
            )
        guard = StampedeGuard.from_url(url)
        # A function without a name that others do not have may be called all the same: see `Registry.add`.
        guard.register_all(_waiting)
        _default = guard
