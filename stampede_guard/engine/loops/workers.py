"""Detects whether this process is probably one of several workers."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys

__all__ = ["looks_like_one_of_several", "warn_if_one_of_several"]

log = logging.getLogger("stampede_guard")
_warned: set[int] = set()


def looks_like_one_of_several() -> bool:
    """uvicorn's workers are spawned processes. gunicorn and others set or read WEB_CONCURRENCY."""
    if multiprocessing.parent_process() is not None or "gunicorn" in sys.modules:
        return True
    text = os.environ.get("WEB_CONCURRENCY", "1")
    return text.isdecimal() and int(text) > 1


def warn_if_one_of_several() -> None:
    """Warn once per process."""
    if os.getpid() in _warned or not looks_like_one_of_several():
        return
    _warned.add(os.getpid())
    log.warning(
        "the memory store covers this process only, and this process is probably one of several workers: "
        "each of them will compute for itself. Use StampedeGuard.from_url('redis://...') or set $STAMPEDE_GUARD_URL"
    )
