"""A report for a ticket or a pull request."""

from __future__ import annotations

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.finding import Finding, printable
from stampede_guard.audit.reports.guides import page
from stampede_guard.audit.reports.machine import total
from stampede_guard.audit.reports.summary import patterns


def markdown(outcome: AuditResult) -> str:
    lines = ["# Caches that stampede", "", f"{total(outcome)}.", ""]
    for pattern in patterns(outcome.findings):
        lines += [
            f"## {pattern.code} {pattern.name}",
            "",
            f"{_cell(pattern.summary)}: {pattern.headline}. See {page(pattern.code)}.",
            "",
        ]
        lines += [
            "| place | function | a miss costs | confidence | scope | fix |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {_cell(f.path)}:{f.line} | {_cell(f.function) or '-'} | {', '.join(f.cost) or '-'} "
            f"| {f.confidence} | {f.scope} | {_cell(_fix(f))} |"
            for f in pattern.findings
        ]
        lines.append("")
    if outcome.skipped:
        lines += ["## Skipped", "", *(f"- {_cell(s.path)}: {_cell(s.reason)}" for s in outcome.skipped), ""]
    return "\n".join(lines)


def _fix(finding: Finding) -> str:
    if finding.fix is None:
        return f"none: {finding.no_fix}" if finding.no_fix else "none"
    return f"{finding.fix}: {'; '.join(finding.fix_reasons)}" if finding.fix_reasons else finding.fix


def _cell(text: str) -> str:
    return printable(text.replace("\n", " ")).replace("|", "\\|")
