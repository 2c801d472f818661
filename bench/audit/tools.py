"""The three programs, each told to read everything, to keep nothing, and to succeed whatever it finds."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Tool", "tools"]

# Where `make bench-audit` puts bandit.
OTHERS = Path(".venv-bench-audit")


@dataclass(frozen=True)
class Tool:
    """`command` is None if the tool is not installed."""

    name: str
    command: tuple[str, ...] | None

    def on(self, folder: Path) -> list[str] | None:
        return None if self.command is None else [*self.command, str(folder)]


def tools() -> list[Tool]:
    audit = (
        sys.executable,
        "-m",
        "stampede_guard.audit",
        "--no-config",
        "--no-cache",
        "--include-tests",
        "--exit-zero",
    )
    ruff = ("check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--no-respect-gitignore")
    bandit = ("--quiet", "--exit-zero", "--format", "json", "--output", os.devnull, "--recursive")
    return [
        Tool("stampede-guard audit", (*audit, "--output-format", "json", "--output-file", os.devnull)),
        Tool("ruff check", _found("ruff", ruff)),
        Tool("bandit", _found("bandit", bandit)),
    ]


def _found(name: str, arguments: tuple[str, ...]) -> tuple[str, ...] | None:
    beside = (Path(sys.executable).parent / name, OTHERS / "bin" / name)
    path = next((str(path.absolute()) for path in beside if path.exists()), None) or shutil.which(name)
    return (path, *arguments) if path else None
