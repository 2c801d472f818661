"""A baseline records the known findings, so that only new findings fail.

Paths in a baseline are relative to the folder of the configuration (None: the working directory). So a baseline is
the same wherever the audit starts.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from stampede_guard.audit.files.paths import seen_from
from stampede_guard.audit.finding import Finding


def write(path: str, findings: list[Finding], folder: str | None = None) -> None:
    counted = Counter(_fingerprint(finding, folder) for finding in findings)
    Path(path).write_text(
        json.dumps({"version": 1, "findings": dict(sorted(counted.items()))}, indent=2) + "\n", "utf-8"
    )


def read(path: str) -> Counter[str]:
    """Raises ValueError if the file is missing or contains something else."""
    if not Path(path).is_file():
        raise ValueError(f"baseline {path} not found: write one with --write-baseline")
    try:
        stored = json.loads(Path(path).read_text("utf-8"))
        return Counter({str(name): int(count) for name, count in stored["findings"].items()})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a baseline of this audit: write one with --write-baseline"
        ) from error


def new(findings: list[Finding], known: Counter[str], folder: str | None = None) -> list[Finding]:
    """A fingerprint names a function, not a line: moved code is not new."""
    left = known.copy()
    fresh = []
    for finding in findings:
        name = _fingerprint(finding, folder)
        if left[name] > 0:
            left[name] -= 1
        else:
            fresh.append(finding)
    return fresh


def _fingerprint(finding: Finding, folder: str | None) -> str:
    return replace(finding, path=seen_from(folder, finding.path)).fingerprint
