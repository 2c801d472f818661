"""The hook for log: see `ops.observe.log`."""

from __future__ import annotations

from stampede_guard.ops.observe.log import LogHook

__all__ = ["LogHook"]
