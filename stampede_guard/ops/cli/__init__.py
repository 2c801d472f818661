"""The command line: `stampede-guard audit | keys | show | invalidate | explain | stats | mode | doctor | ...`.

One file per command. Each is imported when it is called: see `stampede_guard.ops.cli.commands`.
"""

from __future__ import annotations

import importlib.util
import re
import sys

__all__ = ["main"]


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 the store failed or has a problem, 2 the command was wrong."""
    if _is_for_the_audit(sys.argv[1:]):
        from stampede_guard.audit.command import main as audit

        arguments = sys.argv[1:] if sys.argv[1] == "explain" else sys.argv[2:]
        raise SystemExit(audit(arguments))
    if any(importlib.util.find_spec(needed) is None for needed in ("typer", "rich")):
        sys.stderr.write(
            "The command line needs two more packages: pip install '.[cli]' in a clone of the repository\n"
        )
        raise SystemExit(2)
    from stampede_guard.ops.cli.app import app

    app(prog_name="stampede-guard")


def _is_for_the_audit(arguments: list[str]) -> bool:
    """The audit needs none of the packages of the other commands. `explain SG201` means a rule, not a key."""
    if arguments[:1] == ["audit"]:
        return True
    return (
        arguments[:1] == ["explain"] and re.fullmatch(r"SG\d{3}", "".join(arguments[1:2]).upper()) is not None
    )
