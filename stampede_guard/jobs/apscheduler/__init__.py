"""Jobs of APScheduler, versions 3 and 4, each slot in one worker.

The triggers of version 4 need that version, so they are imported when its first job begins.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.jobs.apscheduler import triggers4

__all__ = ["triggers4"]


def __getattr__(name: str) -> Any:
    if name == "triggers4":
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
