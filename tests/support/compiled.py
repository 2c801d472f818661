"""Compile the tests and what they import once, before the workers of pytest-xdist begin.

In a new clone nothing is compiled yet. Six workers that begin at once would each compile all of it, and rewrite the
assertions of every test file: three quarters of the time that they need to collect the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL

__all__ = ["compile_once", "uncompiled"]

TESTS = Path(__file__).resolve().parents[1]
AT_ONCE = 2
FEW = 40
"""Files that workers may compile by themselves: to start Python and pytest once more takes as long."""


def uncompiled(folder: Path = TESTS) -> list[Path]:
    """The test files without a rewritten form that is as new as the file."""
    found = []
    for path in folder.rglob("test_*.py"):
        cached = Path(cache_from_source(str(path)))
        rewritten = cached.with_name(path.stem + PYC_TAIL)
        if not rewritten.exists() or rewritten.stat().st_mtime < path.stat().st_mtime:
            found.append(path)
    return found


def compile_once() -> None:
    """Collect the uncompiled test files, in two processes. What fails here fails again in the workers."""
    paths = sorted(map(str, uncompiled()))
    if len(paths) <= FEW or sys.dont_write_bytecode:
        return
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    # Neighbours share most of their imports, so each process takes a half that lies together.
    half = -(-len(paths) // AT_ONCE)
    started = [
        subprocess.Popen(
            [*command, *paths[begin : begin + half]],
            cwd=TESTS.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        for begin in range(0, len(paths), half)
    ]
    for process in started:
        process.wait()
