"""Who calls a function that starts a scheduler, if another file does: a worker that was elected, or each one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from stampede_guard.audit.files.reading import Unreadable, decode, read
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.source.builder import build
from stampede_guard.audit.source.startup import is_elected

CODE = "SG401"


def without_elected(findings: list[Finding], files: list[str]) -> list[Finding]:
    """The findings, without schedulers that other files start after an election: a file lock, a lease."""
    return [finding for finding in findings if not _is_elected_elsewhere(finding, files)]


def _is_elected_elsewhere(finding: Finding, files: list[str]) -> bool:
    if finding.code != CODE or finding.confidence == "high" or not finding.function:
        return False
    answers = [
        answer
        for path in files
        if os.path.realpath(path) != os.path.realpath(finding.path)
        for answer in _callers(path, finding.function, Path(finding.path).stem)
    ]
    return bool(answers) and all(answers)


def _callers(path: str, name: str, stem: str) -> list[bool]:
    """For each call of a function imported from the module `stem`: whether the code around it elects a worker."""
    try:
        data = read(path)
        if re.search(rb"\b%s\s*\(" % re.escape(name.encode()), data) is None or stem.encode() not in data:
            return []
        module = build(path, decode(data))
    except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[bool] = []
    for call in module.calls_of(name):
        if f"{stem}.{name}" not in f".{module.resolve(call.func)}":
            continue
        function = module.owners.get(call)
        found.append(function is not None and is_elected(module, function))
    module.release()
    return found
