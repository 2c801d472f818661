"""The command line: `stampede-guard keys | show | invalidate | explain | mode | doctor`.

One command a file, each loaded when it is called: see `stampede_guard.cli.commands`.
"""

from __future__ import annotations

import importlib.util
import sys

__all__ = ["main"]


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 something is wrong with the store, 2 the command was not right."""
    if any(importlib.util.find_spec(needed) is None for needed in ("typer", "rich")):
        sys.stderr.write("The command line needs two more packages: pip install 'stampede_guard[cli]'\n")
        raise SystemExit(2)
    from stampede_guard.cli.app import app

    app(prog_name="stampede-guard")
