"""A report for a ticket or a pull request."""

from __future__ import annotations

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.reports.machine import total
from stampede_guard.audit.reports.summary import patterns


def markdown(outcome: AuditResult) -> str:
    lines = ["# Caches that stampede", "", f"{total(outcome)}.", ""]
    for pattern in patterns(outcome.findings):
        lines += [
            f"## {pattern.code} {pattern.name}",
            "",
            f"{_cell(pattern.summary)}: {pattern.headline}.",
            "",
        ]
        lines += ["| place | function | a miss costs | confidence | scope |", "|---|---|---|---|---|"]
        lines += [
            f"| {_cell(f.path)}:{f.line} | {_cell(f.function) or '-'} | {', '.join(f.cost) or '-'} "
            f"| {f.confidence} | {f.scope} |"
            for f in pattern.findings
        ]
        lines.append("")
    if outcome.skipped:
        lines += ["## Skipped", "", *(f"- {_cell(s.path)}: {_cell(s.reason)}" for s in outcome.skipped), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
