"""The screens, in the order of the navigation. See `stampede_guard.ops.console` for how to add one."""

from __future__ import annotations

from stampede_guard.ops.console.screen import ConsoleScreen
from stampede_guard.ops.console.screens import function, functions, herds, job, jobs, keys, leases, overview

__all__ = ["SCREENS"]

SCREENS: tuple[ConsoleScreen, ...] = (
    overview.SCREEN,
    functions.SCREEN,
    function.SCREEN,
    herds.SCREEN,
    keys.SCREEN,
    leases.SCREEN,
    jobs.SCREEN,
    job.SCREEN,
)
