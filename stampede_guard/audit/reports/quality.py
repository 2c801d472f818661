"""Reports for the merge requests of GitLab (Code Quality) and for test reporters (JUnit)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.finding import Finding, SkippedFile
from stampede_guard.audit.reports.guides import page

_SEVERITIES = {"high": "major", "medium": "minor", "low": "info"}
# XML 1.0 has no place for other control characters.
_UNSHOWN = {number: "?" for number in range(32) if number not in (9, 10, 13)}


def gitlab(outcome: AuditResult) -> str:
    """GitLab's Code Quality report. A fingerprint stays the same when lines are added above."""
    seen: Counter[str] = Counter()
    found = [_issue(finding, seen) for finding in outcome.findings]
    return json.dumps([*found, *map(_unread, outcome.skipped)], indent=2) + "\n"


def _unread(skipped: SkippedFile) -> dict[str, Any]:
    return {
        "description": f"not audited: {skipped.reason}",
        "check_name": "skipped-file",
        "fingerprint": hashlib.sha256(f"{skipped.path}:skipped".encode()).hexdigest(),
        "severity": "minor" if skipped.broken else "info",
        "location": {"path": skipped.path, "lines": {"begin": 1, "end": 1}},
    }


def _issue(finding: Finding, seen: Counter[str]) -> dict[str, Any]:
    place = finding.fingerprint
    seen[place] += 1
    fingerprint = hashlib.sha256(f"{place}:{seen[place]}".encode()).hexdigest()
    information = finding.level == "information"
    return {
        "description": "; ".join(
            filter(None, (f"{finding.code} {finding.message} ({page(finding.code)})", finding.about_fix))
        ),
        "check_name": finding.name,
        "fingerprint": fingerprint,
        "severity": "info" if information else _SEVERITIES[finding.confidence],
        "location": {"path": finding.path, "lines": {"begin": finding.line, "end": finding.end_line}},
    }


def junit(outcome: AuditResult) -> str:
    """One test case for each finding; information and skipped files are skipped cases."""
    failures = sum(finding.level == "warning" for finding in outcome.findings)
    skipped = len(outcome.findings) - failures + len(outcome.skipped)
    count = len(outcome.findings) + len(outcome.skipped)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites><testsuite name="stampede-guard audit" tests="{max(count, 1)}" failures="{failures}" '
        f'errors="0" skipped="{skipped}">',
    ]
    lines += [_case(finding) for finding in outcome.findings]
    lines += [
        f'<testcase name="readable" classname={_quoted(s.path)}><skipped message={_quoted(s.reason)}/></testcase>'
        for s in outcome.skipped
    ]
    if not count:
        lines.append('<testcase name="audit" classname="stampede-guard"/>')
    return "\n".join([*lines, "</testsuite></testsuites>"]) + "\n"


def _case(finding: Finding) -> str:
    kind = "failure" if finding.level == "warning" else "skipped"
    place = f"{finding.path}:{finding.line}:{finding.column}"
    lines = filter(None, (place, page(finding.code), finding.about_fix))
    text = escape("\n".join(lines).translate(_UNSHOWN))
    return (
        f"<testcase name={_quoted(f'{finding.code} line {finding.line}')} classname={_quoted(finding.path)} "
        f'file={_quoted(finding.path)} line="{finding.line}">'
        f"<{kind} message={_quoted(f'{finding.code} {finding.message}')}>{text}</{kind}></testcase>"
    )


def _quoted(text: str) -> str:
    return quoteattr(text.translate(_UNSHOWN))
