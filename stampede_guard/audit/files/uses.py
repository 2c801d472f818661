"""How often the project uses its own unlocked decorators: the places that one fix repairs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from stampede_guard.audit.files.reading import Unreadable, read
from stampede_guard.audit.finding import Finding

CODE = "SG203"


def counted(findings: list[Finding], files: list[str]) -> list[Finding]:
    """The findings. Those of decorators carry the number of uses in the files."""
    names = {finding.function for finding in findings if finding.code == CODE and finding.function}
    if not names:
        return findings
    pattern = re.compile(
        rb"^[ \t]*@(?:\w+\.)*(" + b"|".join(re.escape(n.encode()) for n in sorted(names)) + rb")\b", re.M
    )
    uses: Counter[str] = Counter()
    for path in files:
        try:
            uses.update(found.decode() for found in pattern.findall(read(path)))
        except Unreadable:
            continue
    return [
        replace(finding, message=f"{finding.message} ({_times(uses[finding.function])})")
        if finding.code == CODE and finding.function in names
        else finding
        for finding in findings
    ]


def _times(count: int) -> str:
    return "used once" if count == 1 else f"used {count} times"
