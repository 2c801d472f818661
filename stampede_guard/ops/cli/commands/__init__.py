"""Which module contains which command. A module is imported when its command is called, or when all are listed.

So `stampede-guard audit` imports neither Redis nor the runtime. Each module has `register(app)`. It adds the
module's command, or several below one name, to the `typer.Typer` that it gets.
"""

from __future__ import annotations

from typing import Any

__all__ = ["COMMANDS", "load"]

COMMANDS = ("doctor", "keys", "show", "explain", "invalidate", "mode", "leases", "jobs", "audit")


def load(name: str) -> Any:
    """The module of a command."""
    command: Any
    match name:
        case "doctor":
            from stampede_guard.ops.cli.commands import doctor as command
        case "keys":
            from stampede_guard.ops.cli.commands import keys as command
        case "show":
            from stampede_guard.ops.cli.commands import show as command
        case "explain":
            from stampede_guard.ops.cli.commands import explain as command
        case "invalidate":
            from stampede_guard.ops.cli.commands import invalidate as command
        case "mode":
            from stampede_guard.ops.cli.commands import mode as command
        case "leases":
            from stampede_guard.ops.cli.commands import leases as command
        case "jobs":
            from stampede_guard.ops.cli.commands import jobs as command
        case "audit":
            from stampede_guard.ops.cli.commands import audit as command
        case _:
            raise KeyError(name)
    return command
