"""How often the project uses its own unlocked decorators: the places that one fix repairs."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace

from stampede_guard.audit.files.reading import Unreadable, read
from stampede_guard.audit.finding import Finding

CODE = "SG203"
# Uses without an @: a call, another name for it, a name in `__all__`.
_OTHERWISE = (
    rb"(?<!def )\b(?:%(n)s)\b(?=\s*\(|[ ]as[ ])|^\w+[ ]*=[ ]*(?:%(n)s)[ ]*$|=[ ]*\w+\.(?:%(n)s)[ ]*$|"
    rb"__all__[ ]*=[^])]*[\"'](?:%(n)s)[\"']"
)


def counted(findings: list[Finding], files: list[str], *, whole: bool) -> list[Finding]:
    """The findings. Those of decorators carry the number of uses in the files. If these are `whole` folders, a
    decorator that nothing there uses, calls or exports is left out: its callers do not exist.
    """
    names = {
        finding.function
        for finding in findings
        if finding.code == CODE and finding.function and not finding.function.startswith("__")
    }
    if not names:
        return findings
    pattern = re.compile(
        rb"^[ \t]*@(?:\w+\.)*(" + b"|".join(re.escape(n.encode()) for n in sorted(names)) + rb")\b", re.M
    )
    known: set[str] = set()
    mentions = {name: re.compile(_OTHERWISE % {b"n": re.escape(name.encode())}, re.M) for name in names}
    uses: Counter[str] = Counter()
    for path in files:
        try:
            data = read(path)
        except Unreadable:
            continue
        uses.update(found.decode() for found in pattern.findall(data))
        exports = os.path.basename(path) == "__init__.py"
        for name in names - known:
            if mentions[name].search(data) or (exports and name.encode() in data):
                known.add(name)
    return [
        replace(finding, message=f"{finding.message} ({_times(uses[finding.function])})")
        if finding.code == CODE and finding.function in names
        else finding
        for finding in findings
        if not (whole and _is_unused(finding, names, known | uses.keys()))
    ]


def _is_unused(finding: Finding, names: set[str], known: set[str]) -> bool:
    return finding.code == CODE and finding.function in names - known


def _times(count: int) -> str:
    return "used once" if count == 1 else f"used {count} times"
