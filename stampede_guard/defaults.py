"""The default guard: that of every bare `@locked_cache`."""

from __future__ import annotations

import logging
import os
import threading

from stampede_guard.guard import StampedeGuard

__all__ = ["configure", "default_guard"]

log = logging.getLogger("stampede_guard")

_default: StampedeGuard | None = None
_lock = threading.Lock()
"""Threads that call plain functions for the first time make one default guard between them."""


def configure(guard: StampedeGuard | None) -> None:
    """The guard of every bare `@locked_cache`, also of functions decorated before. None forgets it."""
    global _default
    _default = guard


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
        _default = StampedeGuard.from_url(url)
