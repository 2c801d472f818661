"""How often one decision is needed: uses of an unlocked decorator, and lines of a file that need the same mending."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace

from stampede_guard.audit.files.reading import Unreadable, read
from stampede_guard.audit.finding import Finding

# KEYS instead of SCAN: whoever mends one line of a file mends all of them.
_ONCE = frozenset(("SG403",))
_SHOWN = 5  # lines that a message names
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
        finding.defines for finding in findings if finding.defines and not finding.defines.startswith("__")
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
        replace(finding, message=f"{finding.message} ({_times(uses[finding.defines])})")
        if finding.defines in names and uses[finding.defines]
        else finding
        for finding in findings
        if not (whole and _is_unused(finding, names, known | uses.keys()))
    ]


def _is_unused(finding: Finding, names: set[str], known: set[str]) -> bool:
    return finding.defines in names - known


def _times(count: int) -> str:
    return "used once" if count == 1 else f"used {count} times"


def once_per_file(findings: list[Finding]) -> list[Finding]:
    """The findings. Of those of one file that need one decision, the first stands for all and names the others."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.code in _ONCE:
            groups.setdefault((finding.path, finding.code), []).append(finding)
    return [
        _for_all(group) if len(group) > 1 else finding
        for finding in findings
        if (group := groups.get((finding.path, finding.code), [finding]))[0] is finding
    ]


def _for_all(group: list[Finding]) -> Finding:
    lines = [str(finding.line) for finding in group[1:]]
    named = ", ".join(lines[:_SHOWN]) + (", ..." if len(lines) > _SHOWN else "")
    return replace(
        group[0], message=f"{group[0].message} ({len(group)} times in this file, also in line {named})"
    )
