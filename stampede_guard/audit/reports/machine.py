"""Formats that other programs read."""

from __future__ import annotations

import json
from collections import Counter

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.finding import Finding, plural, printable
from stampede_guard.audit.reports.guides import page


def concise(outcome: AuditResult) -> str:
    """path:line:column: CODE message, a line each."""
    lines = [
        f"{f.path}:{f.line}:{f.column}: {f.code} {f.message}{f' ({f.about_fix})' if f.about_fix else ''}"
        for f in outcome.findings
    ]
    lines += [f"{skipped.path}: skipped: {skipped.reason}" for skipped in outcome.skipped]
    return "\n".join([*map(printable, lines), total(outcome)]) + "\n"


def json_report(outcome: AuditResult) -> str:
    """For editors, too: one object per finding, with all its fields."""
    return (
        json.dumps(
            {
                "findings": [{**f.as_json(), "url": page(f.code)} for f in outcome.findings],
                "skipped": [{"path": skipped.path, "reason": skipped.reason} for skipped in outcome.skipped],
                "summary": {
                    "files": outcome.files,
                    "suppressed": outcome.suppressed,
                    "codes": dict(sorted(Counter(f.code for f in outcome.findings).items())),
                },
            },
            indent=2,
        )
        + "\n"
    )


def github(outcome: AuditResult) -> str:
    """Annotations of a workflow run."""
    lines = [_annotation(finding) for finding in outcome.findings]
    lines += [f"::notice file={_property(s.path)}::skipped: {_data(s.reason)}" for s in outcome.skipped]
    return "".join(f"{line}\n" for line in lines)


def _annotation(finding: Finding) -> str:
    text = "\n".join(filter(None, (f"{finding.code} {finding.message}", finding.about_fix)))
    level = "error" if finding.confidence == "high" else "warning"
    level = "notice" if finding.level == "information" else level
    return (
        f"::{level} title={_property(f'{finding.code} {finding.name}')},file={_property(finding.path)},"
        f"line={finding.line},endLine={finding.end_line},col={finding.column}::"
        f"{_data(text)}"
    )


def _data(text: str) -> str:
    return printable(text, lines=True).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def total(outcome: AuditResult) -> str:
    """ "17 findings in 5 of 8 files": files with findings, of all files looked at."""
    having = len({finding.path for finding in outcome.findings})
    files = plural(outcome.files, "file")
    parts = [f"{plural(len(outcome.findings), 'finding')} in {f'{having} of ' if having else ''}{files}"]
    safe = sum(finding.fix == "safe" for finding in outcome.findings)
    unsafe = sum(finding.fix == "unsafe" for finding in outcome.findings)
    if safe:
        parts.append(f"{safe} fixable with --fix")
    if unsafe:
        parts.append(f"{unsafe} {'more ' if safe else 'fixable '}with --fix --unsafe-fixes")
    if outcome.suppressed:
        parts.append(f"{outcome.suppressed} suppressed")
    if outcome.skipped:
        parts.append(f"{plural(len(outcome.skipped), 'file')} skipped")
    return ", ".join(parts)
