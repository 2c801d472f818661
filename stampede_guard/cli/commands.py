"""Which module contains which command. A module is imported when its command is called, or when all are listed.

So `stampede-guard audit` imports neither Redis nor the runtime. Each module has `register(app)`. It adds the
module's command, or several below one name, to the `typer.Typer` that it gets.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

COMMANDS: dict[str, str] = {
    "doctor": "stampede_guard.cli.doctor",
    "keys": "stampede_guard.cli.keys",
    "show": "stampede_guard.cli.show",
    "explain": "stampede_guard.cli.explain",
    "invalidate": "stampede_guard.cli.invalidate",
    "mode": "stampede_guard.cli.mode",
    "leases": "stampede_guard.cli.leases",
    "jobs": "stampede_guard.cli.jobs",
    "audit": "stampede_guard.cli.audit",
}
