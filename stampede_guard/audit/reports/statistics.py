"""`--statistics`: how many findings each rule has."""

from __future__ import annotations

from collections import Counter

from stampede_guard.audit.engine import AuditResult


def statistics(outcome: AuditResult) -> str:
    """One line for each code, the most frequent first: count, code, how many are fixable, name."""
    counts = Counter((finding.code, finding.name) for finding in outcome.findings)
    fixable = Counter(finding.code for finding in outcome.findings if finding.fix is not None)
    width = max((len(str(count)) for count in counts.values()), default=1)
    return "".join(
        f"{count:>{width}}  {code}  {f'{fixable[code]} fixable' if fixable[code] else '-':<12}  {name}\n"
        for (code, name), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
