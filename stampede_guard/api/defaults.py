"""The default guard, which every bare `@locked_cache` uses."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from stampede_guard.api.environment import NAMESPACE_VARIABLE
from stampede_guard.api.identity.definition import Definition
from stampede_guard.api.identity.registry import Registry
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.errors import Misuse
from stampede_guard.options import ALL, takes_options
from stampede_guard.values.forks import renew_in_children

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["configure", "default_guard", "make_with", "register_bare"]

log = logging.getLogger("stampede_guard")

_default: StampedeGuard | None = None
_from_url: Callable[[str], StampedeGuard] | None = None
_lock = PassableLock()
"""Several threads may call plain functions for the first time. They must make only one default guard."""
renew_in_children(sys.modules[__name__], "_lock", PassableLock)

_told_of_namespace = False

_waiting = Registry()
"""Functions under a bare decorator, from the last `configure` call until there is a default guard."""


def make_with(from_url: Callable[[str], StampedeGuard]) -> None:
    """Set how the default guard is made. The module of the guard itself calls this."""
    global _from_url
    _from_url = from_url


@takes_options("configure", own=ALL)
def configure(guard: StampedeGuard | None) -> None:
    """Set the guard of every bare `@locked_cache`, also for functions already decorated. None removes it.

    Raises `KeyPartError` if one of these functions has the name of another function of the guard.
    """
    global _default, _waiting
    if guard is not None:
        guard.register_all(_waiting)
        _warn_of_namespace(guard)
    _default, _waiting = guard, Registry()


def register_bare(name: str, definition: Definition) -> None:
    """Register a function under a bare `@locked_cache`. Raises `KeyPartError` if another function has its name."""
    if _default is not None:
        _default.register(name, definition)
    else:
        _waiting.add("", name, definition)


def default_guard() -> StampedeGuard:
    """The guard given to `configure`, or one for `$STAMPEDE_GUARD_URL`, `$REDIS_URL`, or memory with a warning."""
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
        if _from_url is None:
            raise Misuse(
                "there is no default guard yet: import locked_cache and cached_many from stampede_guard"
            )
        guard = _from_url(url)
        # If the store is not shared, a function without a lasting name can be called too: see `Registry.add`.
        guard.register_all(_waiting)
        _warn_of_namespace(guard)
        _default = guard


def _warn_of_namespace(guard: StampedeGuard) -> None:
    """Once per process: other applications on the server may have functions of the same names."""
    global _told_of_namespace
    if _told_of_namespace or guard._is_named or not guard.engine.store.is_shared:
        return
    _told_of_namespace = True
    log.warning(
        "@locked_cache has no namespace of its own on a server that others may share, so its entries are in %r. "
        "Another application, or this one in staging, would get them. Set $%s to a name such as shop, or call "
        "configure(StampedeGuard.from_url(url, namespace='shop'))",
        guard.namespace,
        NAMESPACE_VARIABLE,
    )
