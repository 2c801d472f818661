"""Jobs: each slot of a schedule runs once, on any number of workers whose clocks differ.

Every worker follows every schedule. The first worker that claims a slot in the back end runs it, and the back end's
clock decides. No leader is needed, so no leader can be wrong.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.jobs.run import Run, current_run
    from stampede_guard.jobs.scheduler import Jobs

_HOMES = {"Jobs": "scheduler", "Run": "run", "current_run": "run"}

__all__ = ["Jobs", "Run", "current_run"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stampede_guard.jobs' has no attribute {name!r}")
    return getattr(importlib.import_module(f"stampede_guard.jobs.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
