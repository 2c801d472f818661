"""What was there before: only what is new fails."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from stampede_guard.audit.finding import Finding


def write(path: str, findings: list[Finding]) -> None:
    counted = Counter(finding.fingerprint for finding in findings)
    Path(path).write_text(
        json.dumps({"version": 1, "findings": dict(sorted(counted.items()))}, indent=2) + "\n", "utf-8"
    )


def read(path: str) -> Counter[str]:
    """Raises ValueError for what is no baseline, and where there is none."""
    if not Path(path).is_file():
        raise ValueError(
            f"there is no baseline {path} (as seen from the working directory): write one with --write-baseline"
        )
    try:
        stored = json.loads(Path(path).read_text("utf-8"))
        return Counter({str(name): int(count) for name, count in stored["findings"].items()})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is no baseline of this audit: write one with --write-baseline") from error


def new(findings: list[Finding], known: Counter[str]) -> list[Finding]:
    """A fingerprint names a function, not a line: moved code is not new."""
    left = known.copy()
    fresh = []
    for finding in findings:
        if left[finding.fingerprint] > 0:
            left[finding.fingerprint] -= 1
        else:
            fresh.append(finding)
    return fresh
